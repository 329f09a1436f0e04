//! Are these Thrift bytes safe for parquet's decoder, or could they abort the process?
//!
//! Idea: parquet 59.3 allocates memory for as many row groups, page locations and schema children
//! as a list or a field claims, and follows the schema recursively. One flipped bit in such a
//! count requests more memory than there is, and a failed allocation or an overflowed stack
//! aborts; `catch_unwind` cannot help. So the bytes are walked once, without allocating, before
//! they are decoded; `grammar.rs` keeps the walk on the bytes that parquet examines.
//! Not here: the meaning of values, except the schema's `num_children` and types; parquet may
//! still refuse bytes that pass.
//! Bounds: O(bytes), recursion at most [`DEPTH_MAX`].
//! I1: in bytes that pass, no list has more elements than the remaining bytes have room for, all
//! lists together have at most [`ELEMENTS_MAX`], a schema's children are all present, and
//! parquet's column chunks take no more memory than there is.
//! I2: the walk and parquet agree on where each value ends.

use std::ops::Range;

use super::grammar::{Element, Name, Shape};

/// What is wrong with the bytes.
pub(crate) type Flaw = &'static str;

/// The deepest nesting of structs and lists; Parquet's own metadata has 6 levels.
const DEPTH_MAX: usize = 32;

/// The deepest nesting of a table's columns. Parquet's decoder and arrow's schemas recurse over it.
const SCHEMA_DEPTH_MAX: usize = 100;

/// The most elements in all lists of a footer, or of one page index. Parquet makes at most 50
/// bytes of an element.
const ELEMENTS_MAX: u64 = 8 << 20;

/// The most columns and groups of columns: each takes a kilobyte in Parquet's and Arrow's schemas.
const SCHEMA_ELEMENTS_MAX: u64 = 100_000;

/// Parquet numbers row groups with 16 bits.
const ROW_GROUPS_MAX: u64 = 1 << 15;

/// The fewest bytes of a column chunk in a footer: eight numbers, two lists and three structs.
const COLUMN_CHUNK_BYTES_MIN: u64 = 20;
/// The memory of a decoded column chunk in parquet, in bytes.
const COLUMN_CHUNK_MEMORY: u64 = 600;

/// Checks a `FileMetaData` struct; parquet may allocate `memory_max` bytes for its column chunks.
/// Some writers put their own fields under numbers that the format assigned later. If there are
/// such fields, returns the struct without them, because parquet would take them for the format's.
pub(crate) fn check_file_metadata(bytes: &[u8], memory_max: u64) -> Result<Option<Vec<u8>>, Flaw> {
    let mut schema = Schema {
        column_chunks_max: memory_max / COLUMN_CHUNK_MEMORY,
        ..Schema::default()
    };
    let mut edits = Vec::new();
    let mut watch = |seen: Seen| match seen {
        Seen::Foreign(left) => {
            edits.push((left, Vec::new()));
            Ok(())
        }
        Seen::Next(left, header) => {
            edits.push((left, header));
            Ok(())
        }
        seen => schema.see(seen),
    };
    walk(bytes, Name::FileMetaData, &mut watch)?;
    check_schema(&schema.children)?;
    if edits.is_empty() {
        return Ok(None);
    }
    let mut mended = Vec::with_capacity(bytes.len());
    let mut at = 0;
    for (left, new) in edits {
        mended.extend_from_slice(&bytes[at..bytes.len() - left.start]);
        mended.extend_from_slice(&new);
        at = bytes.len() - left.end;
    }
    mended.extend_from_slice(&bytes[at..]);
    // The result must pass the check without further changes.
    match check_file_metadata(&mended, memory_max)? {
        None => Ok(Some(mended)),
        Some(_) => Err(OTHER_TYPE),
    }
}

/// The facts about a footer's columns, collected during the walk.
#[derive(Default)]
struct Schema {
    /// The number of children of each element of the schema, in order.
    children: Vec<i64>,
    /// The physical type of each element; the types of groups are ignored.
    types: Vec<i64>,
    /// The physical types of the columns, known when the first row group begins.
    leaves: Vec<i64>,
    /// The number of column chunks of the current row group that have begun.
    column: usize,
    /// The number of column chunks in the row groups walked so far, and the most that there may
    /// be.
    column_chunks: u64,
    column_chunks_max: u64,
}

impl Schema {
    #[expect(clippy::needless_pass_by_value, reason = "a visited item is small")]
    fn see(&mut self, seen: Seen) -> Result<(), Flaw> {
        match seen {
            Seen::List(Name::FileMetaData, SCHEMA, size) if size > SCHEMA_ELEMENTS_MAX => {
                return Err("more than 100000 columns");
            }
            Seen::List(Name::FileMetaData, ROW_GROUPS, size) => {
                let elements = self.types.iter().zip(&self.children).skip(1);
                let leaves = elements.filter(|(_, children)| **children == 0);
                self.leaves = leaves.map(|(physical, _)| *physical).collect();
                if size > ROW_GROUPS_MAX {
                    return Err("more than 32768 row groups");
                }
            }
            Seen::List(Name::RowGroup, COLUMNS, size) => {
                self.column = 0;
                self.column_chunks = self.column_chunks.saturating_add(size);
                if self.column_chunks > self.column_chunks_max {
                    return Err("its column chunks take more memory than coscan.memory");
                }
            }
            Seen::Struct(Name::ColumnChunk) => self.column += 1,
            // Parquet decodes by the schema's type, whatever type the column chunk declares.
            Seen::Int(Name::ColumnMetaData, TYPE, physical) => {
                let column = self.column.checked_sub(1);
                let known = column.and_then(|column| self.leaves.get(column));
                if known.is_some_and(|known| *known != physical) {
                    return Err("a column chunk is of another type than its column");
                }
            }
            Seen::Struct(Name::SchemaElement) => {
                self.children.push(0);
                self.types.push(-1);
            }
            Seen::Int(Name::SchemaElement, TYPE, physical) => set_last(&mut self.types, physical),
            Seen::Int(Name::SchemaElement, NUM_CHILDREN, n) => set_last(&mut self.children, n),
            _ => {}
        }
        Ok(())
    }
}

fn set_last(values: &mut [i64], value: i64) {
    if let Some(last) = values.last_mut() {
        *last = value;
    }
}

/// Checks an `OffsetIndex`.
pub(crate) fn check_offset_index(bytes: &[u8]) -> Result<(), Flaw> {
    walk(bytes, Name::OffsetIndex, &mut |_| Ok(())).map(|_| ())
}

/// Checks a `ColumnIndex`.
pub(crate) fn check_column_index(bytes: &[u8]) -> Result<(), Flaw> {
    walk(bytes, Name::ColumnIndex, &mut |_| Ok(())).map(|_| ())
}

/// What a `PageHeader` claims. A missing value is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageClaims {
    /// Bytes of the header itself.
    pub(crate) header_bytes: usize,
    /// Bytes of the page when it is decompressed, levels included.
    pub(crate) uncompressed: i64,
    /// Bytes of the page in the file.
    pub(crate) compressed: i64,
    /// In a page of version 2, the bytes of the levels at its front, which are never compressed.
    pub(crate) level_bytes: i64,
    /// Whether a page of version 2 is uncompressed although its column chunk is compressed.
    pub(crate) uncompressed_anyway: bool,
    /// Whether it holds strings whose lengths come first (`DELTA_LENGTH_BYTE_ARRAY`,
    /// `DELTA_BYTE_ARRAY`).
    pub(crate) lists_lengths: bool,
    /// The CRC-32 of the page as it is in the file.
    pub(crate) checksum: Option<u32>,
}

/// Checks the `PageHeader` at the start of these bytes.
pub(crate) fn page_claims(bytes: &[u8]) -> Result<PageClaims, Flaw> {
    let mut claims = PageClaims::default();
    let left = walk(bytes, Name::PageHeader, &mut |seen| {
        match seen {
            Seen::Int(Name::PageHeader, 2, value) => claims.uncompressed = value,
            Seen::Int(Name::PageHeader, 3, value) => claims.compressed = value,
            Seen::Int(Name::PageHeader, 4, value) => {
                claims.checksum = i32::try_from(value).ok().map(i32::cast_unsigned);
            }
            Seen::Int(Name::DataPageHeaderV2, 5 | 6, value) => {
                claims.level_bytes = claims.level_bytes.saturating_add(value);
            }
            Seen::Int(Name::DataPageHeader, 2, encoding)
            | Seen::Int(Name::DataPageHeaderV2, 4, encoding) => {
                claims.lists_lengths |= matches!(encoding, 6 | 7);
            }
            Seen::Bool(Name::DataPageHeaderV2, 7, value) => claims.uncompressed_anyway = !value,
            _ => {}
        }
        Ok(())
    })?;
    claims.header_bytes = bytes.len() - left;
    Ok(claims)
}

/// Checks that the pre-order list of `num_children` (0 for leaves) is one tree that is not too
/// deep.
fn check_schema(children: &[i64]) -> Result<(), Flaw> {
    // For each open group, how many of its children are left.
    let mut open: Vec<i64> = Vec::new();
    for (index, &count) in children.iter().enumerate() {
        match open.last_mut() {
            Some(left) => *left -= 1,
            None if index > 0 => return Err("the schema has more than one root"),
            None => {}
        }
        let rest = children.len() - index;
        if !usize::try_from(count).is_ok_and(|count| count < rest) {
            return Err("the schema counts more children than there are");
        }
        open.push(count);
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.len() > SCHEMA_DEPTH_MAX {
            return Err("the schema is nested too deeply");
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err("the schema lacks children")
    }
}

/// What the walk visits, with the struct and the field that contain it.
enum Seen {
    /// A struct begins.
    Struct(Name),
    Int(Name, i16, i64),
    Bool(Name, i16, bool),
    /// A list with this many elements begins.
    List(Name, i16, u64),
    /// A field of the writer's own, from its header to its end, as distances from the end of the
    /// bytes.
    Foreign(Range<usize>),
    /// The header of the field after such a field, and the header that replaces it.
    Next(Range<usize>, Vec<u8>),
}

/// Called for each item that the walk visits. An error ends the walk.
type Watch<'w> = &'w mut dyn FnMut(Seen) -> Result<(), Flaw>;

struct Walk<'a, 'w> {
    rest: &'a [u8],
    elements: u64,
    watch: Watch<'w>,
}

/// Walks a struct; returns the number of bytes after it.
fn walk(bytes: &[u8], name: Name, watch: Watch<'_>) -> Result<usize, Flaw> {
    let mut walk = Walk {
        rest: bytes,
        elements: 0,
        watch,
    };
    walk.structure(0, name)?;
    Ok(walk.rest.len())
}

/// `FileMetaData.schema`.
const SCHEMA: i16 = 2;
/// `FileMetaData.row_groups`.
const ROW_GROUPS: i16 = 4;
/// `RowGroup.columns`.
const COLUMNS: i16 = 1;
/// `SchemaElement.type` and `ColumnMetaData.type`.
const TYPE: i16 = 1;
/// `ColumnMetaData.bloom_filter_length`; Dremio used the number for a list of pages.
const BLOOM_LENGTH: i16 = 15;
/// `SchemaElement.num_children`.
const NUM_CHILDREN: i16 = 5;

// Types of the compact protocol.
const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

const ENDED: Flaw = "the metadata ends too early";
const OTHER_TYPE: Flaw = "a field of the metadata has another type than it should";
const TOO_DEEP: Flaw = "the metadata is nested too deeply";

impl Walk<'_, '_> {
    fn structure(&mut self, depth: usize, name: Name) -> Result<(), Flaw> {
        if depth > DEPTH_MAX {
            return Err(TOO_DEEP);
        }
        (self.watch)(Seen::Struct(name))?;
        let mut id: i16 = 0;
        let mut after_foreign = false;
        loop {
            let begin = self.rest.len();
            let header = self.byte()?;
            let kind = header & 0xf;
            if kind == STOP {
                return Ok(());
            }
            id = match header >> 4 {
                0 => i16::try_from(self.zigzag()?).map_err(|_| OTHER_TYPE)?,
                delta => id.checked_add(i16::from(delta)).ok_or(OTHER_TYPE)?,
            };
            if std::mem::take(&mut after_foreign) {
                let header = vec![kind, u8::try_from(id << 1).map_err(|_| OTHER_TYPE)?];
                (self.watch)(Seen::Next(begin..self.rest.len(), header))?;
            }
            match (name.field(id), kind) {
                // The header of a struct's field holds the boolean itself.
                (Some(Shape::Bool), TRUE | FALSE) => {
                    (self.watch)(Seen::Bool(name, id, kind == TRUE))?;
                }
                (Some(Shape::Byte), BYTE) => self.skip(1)?,
                (Some(Shape::Int), I16 | I32 | I64) => {
                    let value = self.zigzag()?;
                    (self.watch)(Seen::Int(name, id, value))?;
                }
                (Some(Shape::Double), DOUBLE) => self.skip(8)?,
                (Some(Shape::Binary), BINARY) => self.binary()?,
                (Some(Shape::Struct(member)), STRUCT) => self.structure(depth + 1, member)?,
                (Some(Shape::List(element)), LIST | SET) => {
                    self.list(depth + 1, name, id, element)?;
                }
                (Some(_), LIST | STRUCT) if name == Name::ColumnMetaData && id == BLOOM_LENGTH => {
                    self.unknown(kind, depth + 1)?;
                    (self.watch)(Seen::Foreign(begin..self.rest.len()))?;
                    after_foreign = true;
                }
                (Some(_), _) => return Err(OTHER_TYPE),
                (None, TRUE | FALSE) => {}
                (None, _) => self.unknown(kind, depth + 1)?,
            }
        }
    }

    /// A list in a known field.
    fn list(&mut self, depth: usize, name: Name, id: i16, element: Element) -> Result<(), Flaw> {
        let (kind, size) = self.list_header()?;
        if element == Element::Struct(Name::ColumnChunk) {
            self.has_room(size, COLUMN_CHUNK_BYTES_MIN)?;
        }
        (self.watch)(Seen::List(name, id, size))?;
        for _ in 0..size {
            match (element, kind) {
                (Element::Bool, TRUE | FALSE) => self.skip(1)?,
                (Element::Int, I16 | I32 | I64) => self.varint().map(|_| ())?,
                (Element::Binary, BINARY) => self.binary()?,
                (Element::Struct(member), STRUCT) => self.structure(depth, member)?,
                _ => return Err(OTHER_TYPE),
            }
        }
        Ok(())
    }

    /// A value that parquet skips. In a list of booleans parquet skips no byte per element, so
    /// such a list must be empty (I2).
    fn unknown(&mut self, kind: u8, depth: usize) -> Result<(), Flaw> {
        if depth > DEPTH_MAX {
            return Err(TOO_DEEP);
        }
        match kind {
            BYTE => self.skip(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.skip(8),
            BINARY => self.binary(),
            LIST | SET => {
                let (kind, size) = self.list_header()?;
                (0..size).try_for_each(|_| self.unknown(kind, depth + 1))
            }
            MAP => {
                let size = self.varint()?;
                if size == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                self.fits(size)?;
                (0..size).try_for_each(|_| {
                    self.unknown(kinds >> 4, depth + 1)?;
                    self.unknown(kinds & 0xf, depth + 1)
                })
            }
            STRUCT => self.structure(depth, Name::Unknown),
            UUID => self.skip(16),
            _ => Err("the metadata has a field of an unknown type"),
        }
    }

    fn list_header(&mut self) -> Result<(u8, u64), Flaw> {
        let header = self.byte()?;
        let size = match header >> 4 {
            15 => self.varint()?,
            size => u64::from(size),
        };
        self.fits(size)?;
        Ok((header & 0xf, size))
    }

    /// I1: each element takes at least one byte.
    fn fits(&mut self, size: u64) -> Result<(), Flaw> {
        self.has_room(size, 1)?;
        self.elements += size;
        if self.elements > ELEMENTS_MAX {
            return Err("the metadata's lists are too long");
        }
        Ok(())
    }

    /// I1: whether the remaining bytes have room for this many elements.
    fn has_room(&self, size: u64, element_bytes: u64) -> Result<(), Flaw> {
        if size.saturating_mul(element_bytes) > self.rest.len() as u64 {
            return Err("a list is longer than the metadata");
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, Flaw> {
        let (&first, rest) = self.rest.split_first().ok_or(ENDED)?;
        self.rest = rest;
        Ok(first)
    }

    fn binary(&mut self) -> Result<(), Flaw> {
        let length = self.varint()?;
        self.skip(length)
    }

    fn skip(&mut self, length: u64) -> Result<(), Flaw> {
        let length = usize::try_from(length).map_err(|_| ENDED)?;
        self.rest = self.rest.get(length..).ok_or(ENDED)?;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Flaw> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("the metadata has a number of more than 64 bits")
    }

    fn zigzag(&mut self) -> Result<i64, Flaw> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_longer_than_the_bytes_is_refused() {
        // field 4 (row groups): list of 2^28 structs.
        let bytes = [0x49, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x01, 0x00];
        assert_eq!(
            check_file_metadata(&bytes, u64::MAX),
            Err("a list is longer than the metadata")
        );
        // field 1 of an offset index: as many page locations.
        let bytes = [0x19, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x01, 0x00];
        assert_eq!(
            check_offset_index(&bytes),
            Err("a list is longer than the metadata")
        );
    }

    #[test]
    fn schema_trees() {
        assert_eq!(check_schema(&[]), Ok(()));
        assert_eq!(check_schema(&[0]), Ok(()));
        assert_eq!(check_schema(&[2, 0, 1, 0]), Ok(()));
        assert!(check_schema(&[2, 0]).is_err());
        assert!(check_schema(&[1, 0, 0]).is_err());
        assert!(check_schema(&[i64::from(i32::MAX), 0]).is_err());
        assert!(check_schema(&[-1]).is_err());
        let deep: Vec<i64> = (0..5000).map(|i| i64::from(i < 4999)).collect();
        assert!(check_schema(&deep).is_err());
    }

    #[test]
    fn nesting_is_bounded() {
        // Nested lists with one list each.
        let mut bytes = vec![0xf9];
        bytes.extend([0x19; 10_000]);
        assert_eq!(check_offset_index(&bytes), Err(TOO_DEEP));
        // Structs in field 15.
        assert_eq!(check_offset_index(&[0xfc; 10_000]), Err(TOO_DEEP));
    }

    #[test]
    fn nothing_is_hidden_from_the_walk() {
        // The schema (field 2), declared as a number and as text: parquet reads a list in both
        // cases.
        assert_eq!(
            check_file_metadata(&[0x25, 0x02, 0x00], u64::MAX),
            Err(OTHER_TYPE)
        );
        assert_eq!(
            check_file_metadata(&[0x28, 0x01, 0x4c, 0x00], u64::MAX),
            Err(OTHER_TYPE)
        );
        // Field numbers that fit into 16 bits only because they wrapped.
        let wrapped = [0x09, 0x84, 0x80, 0x08, 0x00, 0x00];
        assert_eq!(check_file_metadata(&wrapped, u64::MAX), Err(OTHER_TYPE));
        // An unknown list (field 15) of booleans, of which parquet skips no byte.
        assert!(check_file_metadata(&[0xf9, 0x11, 0x01, 0x00], u64::MAX).is_err());
        assert_eq!(check_file_metadata(&[0xf9, 0x01, 0x00], u64::MAX), Ok(None));
    }

    #[test]
    fn too_many_columns_are_refused() {
        // The schema: 200,000 elements that end at once.
        let mut bytes = vec![0x29, 0xfc, 0xc0, 0x9a, 0x0c];
        bytes.resize(bytes.len() + 200_001, 0);
        assert_eq!(
            check_file_metadata(&bytes, u64::MAX),
            Err("more than 100000 columns")
        );
    }

    /// A footer with one column and a row group of `chunks` column chunks of `bytes` bytes each.
    fn column_chunks(chunks: u32, bytes: u8) -> Vec<u8> {
        let mut footer = vec![0x29, 0x2c, 0x55, 0x02, 0x00, 0x00, 0x29, 0x1c, 0x19, 0xfc];
        let mut rest = chunks;
        while rest >= 0x80 {
            footer.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        footer.push(rest.to_le_bytes()[0]);
        // Each with a path, and nothing else.
        let mut chunk = vec![0x18, bytes - 3];
        chunk.resize(usize::from(bytes), 0);
        footer.extend(chunk.repeat(chunks as usize));
        footer.extend([0x00, 0x00]);
        footer
    }

    #[test]
    fn column_chunks_are_limited_by_the_footer_and_by_memory() {
        assert_eq!(
            check_file_metadata(&column_chunks(600_000, 20), u64::MAX),
            Ok(None)
        );
        let refused = check_file_metadata(&column_chunks(600_000, 20), 600_000 * 600 - 1);
        let too_large = "its column chunks take more memory than coscan.memory";
        assert_eq!(refused, Err(too_large));
        let refused = check_file_metadata(&column_chunks(100, 16), u64::MAX);
        assert_eq!(refused, Err("a list is longer than the metadata"));
    }

    #[test]
    fn the_claims_of_a_page_header() {
        // type 3, 100 bytes from 40, the checksum -2, version 2 with 3 + 4 bytes of levels, not
        // compressed; then a byte of the page.
        let bytes = [
            0x15, 0x06, 0x15, 0xc8, 0x01, 0x15, 0x50, 0x15, 0x03, 0x4c, 0x55, 0x06, 0x15, 0x08,
            0x12, 0x00, 0x00, 0x77,
        ];
        let claims = PageClaims {
            header_bytes: 17,
            uncompressed: 100,
            compressed: 40,
            level_bytes: 7,
            uncompressed_anyway: true,
            lists_lengths: false,
            checksum: Some(0xffff_fffe),
        };
        assert_eq!(page_claims(&bytes), Ok(claims));
        assert_eq!(page_claims(&bytes[..12]), Err(ENDED));
    }
}
