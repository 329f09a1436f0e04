//! Which fields do the structs of a Parquet file's metadata have, and of which types?
//!
//! Idea: parquet 59.3 reads a known field as the type that the format defines, whatever type the
//! bytes declare. A walk by the declared type would then examine other bytes than parquet does,
//! and a crafted footer could hide a list of a billion elements from it. So `thrift_bounds.rs`
//! refuses a known field of another type; this table defines the known fields.
//! Not here: fields that parquet does not know. It skips them by their declared type, and so does
//! the walk.
//! Source: parquet.thrift of parquet-format 2.12.

use Shape::{Binary, Bool, Byte, Double, Int, List, Struct};

/// The encoding of a field's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// A boolean: in a field's header, or a byte in a list.
    Bool,
    Byte,
    /// An integer of 16, 32 or 64 bits, which have the same encoding.
    Int,
    Double,
    Binary,
    Struct(Name),
    /// A list of these elements.
    List(Element),
}

/// The elements of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    Bool,
    Int,
    Binary,
    Struct(Name),
}

/// The structs of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    FileMetaData,
    SchemaElement,
    LogicalType,
    DecimalType,
    TimeType,
    IntType,
    VariantType,
    GeometryType,
    GeographyType,
    KeyValue,
    ColumnOrder,
    EncryptionAlgorithm,
    AesGcm,
    RowGroup,
    SortingColumn,
    ColumnChunk,
    ColumnMetaData,
    Statistics,
    PageEncodingStats,
    SizeStatistics,
    GeospatialStatistics,
    BoundingBox,
    ColumnCryptoMetaData,
    ColumnKey,
    OffsetIndex,
    PageLocation,
    ColumnIndex,
    PageHeader,
    DataPageHeader,
    DictionaryPageHeader,
    DataPageHeaderV2,
    /// A struct whose fields are empty structs: a union of members without content.
    Units,
    /// A struct without known fields.
    Unknown,
}

impl Name {
    /// The shape of a field, or `None` if the field is not known.
    pub(crate) fn field(self, id: i16) -> Option<Shape> {
        let position = usize::try_from(id).ok()?.checked_sub(1)?;
        self.fields().get(position).copied().flatten()
    }

    /// The known fields by id, from 1.
    // The table follows the format's own definition line by line.
    #[allow(clippy::too_many_lines, clippy::unnecessary_wraps)]
    fn fields(self) -> &'static [Option<Shape>] {
        const INT: Option<Shape> = Some(Int);
        const BOOL: Option<Shape> = Some(Bool);
        const BYTE: Option<Shape> = Some(Byte);
        const BINARY: Option<Shape> = Some(Binary);
        const DOUBLE: Option<Shape> = Some(Double);
        const UNITS: Option<Shape> = Some(Struct(Name::Units));
        const UNIT: Option<Shape> = Some(Struct(Name::Unknown));
        const INTS: Option<Shape> = Some(List(Element::Int));
        const BINARIES: Option<Shape> = Some(List(Element::Binary));
        const fn one(name: Name) -> Option<Shape> {
            Some(Struct(name))
        }
        const fn many(name: Name) -> Option<Shape> {
            Some(List(Element::Struct(name)))
        }
        match self {
            Name::FileMetaData => {
                &const {
                    [
                        INT,
                        many(Name::SchemaElement),
                        INT,
                        many(Name::RowGroup),
                        many(Name::KeyValue),
                        BINARY,
                        many(Name::ColumnOrder),
                        one(Name::EncryptionAlgorithm),
                        BINARY,
                    ]
                }
            }
            Name::SchemaElement => {
                &const {
                    [
                        INT,
                        INT,
                        INT,
                        BINARY,
                        INT,
                        INT,
                        INT,
                        INT,
                        INT,
                        one(Name::LogicalType),
                    ]
                }
            }
            Name::LogicalType => {
                &const {
                    [
                        UNIT,
                        UNIT,
                        UNIT,
                        UNIT,
                        one(Name::DecimalType),
                        UNIT,
                        one(Name::TimeType),
                        one(Name::TimeType),
                        None,
                        one(Name::IntType),
                        UNIT,
                        UNIT,
                        UNIT,
                        UNIT,
                        UNIT,
                        one(Name::VariantType),
                        one(Name::GeometryType),
                        one(Name::GeographyType),
                    ]
                }
            }
            Name::DecimalType => &[INT, INT],
            Name::TimeType => &[BOOL, UNITS],
            Name::IntType => &[BYTE, BOOL],
            Name::VariantType => &[BYTE],
            Name::GeometryType => &[BINARY],
            Name::GeographyType => &[BINARY, INT],
            Name::KeyValue => &[BINARY, BINARY],
            Name::ColumnOrder => UNION,
            Name::EncryptionAlgorithm => &const { [one(Name::AesGcm), one(Name::AesGcm)] },
            Name::AesGcm => &[BINARY, BINARY, BOOL],
            Name::RowGroup => {
                &const {
                    [
                        many(Name::ColumnChunk),
                        INT,
                        INT,
                        many(Name::SortingColumn),
                        INT,
                        INT,
                        INT,
                    ]
                }
            }
            Name::SortingColumn => &[INT, BOOL, BOOL],
            Name::ColumnChunk => {
                &const {
                    [
                        BINARY,
                        INT,
                        one(Name::ColumnMetaData),
                        INT,
                        INT,
                        INT,
                        INT,
                        one(Name::ColumnCryptoMetaData),
                        BINARY,
                    ]
                }
            }
            Name::ColumnMetaData => {
                &const {
                    [
                        INT,
                        INTS,
                        BINARIES,
                        INT,
                        INT,
                        INT,
                        INT,
                        many(Name::KeyValue),
                        INT,
                        INT,
                        INT,
                        one(Name::Statistics),
                        many(Name::PageEncodingStats),
                        INT,
                        INT,
                        one(Name::SizeStatistics),
                        one(Name::GeospatialStatistics),
                    ]
                }
            }
            Name::Statistics => &[BINARY, BINARY, INT, INT, BINARY, BINARY, BOOL, BOOL, INT],
            Name::PageEncodingStats => &[INT, INT, INT],
            Name::SizeStatistics => &[INT, INTS, INTS],
            Name::GeospatialStatistics => &const { [one(Name::BoundingBox), INTS] },
            Name::BoundingBox => &[
                DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE, DOUBLE,
            ],
            Name::ColumnCryptoMetaData => &const { [UNIT, one(Name::ColumnKey)] },
            Name::ColumnKey => &[BINARIES, BINARY],
            Name::OffsetIndex => &const { [many(Name::PageLocation), INTS] },
            Name::PageLocation => &[INT, INT, INT],
            Name::ColumnIndex => {
                &const {
                    [
                        Some(List(Element::Bool)),
                        BINARIES,
                        BINARIES,
                        INT,
                        INTS,
                        INTS,
                        INTS,
                        INTS,
                    ]
                }
            }
            Name::PageHeader => {
                &const {
                    [
                        INT,
                        INT,
                        INT,
                        INT,
                        one(Name::DataPageHeader),
                        UNIT,
                        one(Name::DictionaryPageHeader),
                        one(Name::DataPageHeaderV2),
                    ]
                }
            }
            Name::DataPageHeader => &const { [INT, INT, INT, INT, one(Name::Statistics)] },
            Name::DictionaryPageHeader => &[INT, INT, BOOL],
            Name::DataPageHeaderV2 => {
                &const { [INT, INT, INT, INT, INT, INT, BOOL, one(Name::Statistics)] }
            }
            Name::Units => UNION,
            Name::Unknown => &[],
        }
    }
}

/// Members without content. No union has more than this many.
const UNION: &[Option<Shape>] = &[
    Some(Struct(Name::Unknown)),
    Some(Struct(Name::Unknown)),
    Some(Struct(Name::Unknown)),
];
