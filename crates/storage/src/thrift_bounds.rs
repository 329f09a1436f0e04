//! Can these Thrift bytes be given to parquet's decoder without it taking the process down?
//!
//! Idea: parquet 59.3 reserves memory for as many row groups, page locations and schema children as a list or a field
//! claims, and follows the schema recursively. One flipped bit in such a count asks for more memory than there is, and a
//! failed allocation or an overflowed stack aborts: no `catch_unwind` helps. So the bytes are walked once, without
//! allocating, before they are decoded.
//! Not here: meaning, other than that of the schema's `num_children`; whatever passes may still be refused by parquet.
//! Bounds: O(bytes), recursion at most [`DEPTH_MAX`].
//! I1: in bytes that pass, no list has more elements than there are bytes left, and a schema's children are all there.

/// What is wrong with the bytes.
pub(crate) type Flaw = &'static str;

/// Nesting of structs and lists; Parquet's own have 6 levels.
const DEPTH_MAX: usize = 32;

/// Nesting of a table's columns. Parquet's decoder and arrow's schemas recurse over it.
const SCHEMA_DEPTH_MAX: usize = 100;

/// Checks a `FileMetaData` struct.
pub(crate) fn check_file_metadata(bytes: &[u8]) -> Result<(), Flaw> {
    let mut walk = Walk {
        rest: bytes,
        schema: Some(Vec::new()),
    };
    walk.structure(0, At::File)?;
    check_schema(walk.schema.as_deref().unwrap_or_default())
}

/// Checks any other struct, such as an `OffsetIndex` or a `ColumnIndex`.
pub(crate) fn check_struct(bytes: &[u8]) -> Result<(), Flaw> {
    Walk {
        rest: bytes,
        schema: None,
    }
    .structure(0, At::Elsewhere)
}

/// Checks that the pre-order list of `num_children` (0 for leaves) is one tree that is not too deep.
fn check_schema(children: &[i64]) -> Result<(), Flaw> {
    // For each open group how many of its children are to come.
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

/// Where in the footer the walk is, as far as the schema needs it.
#[derive(Clone, Copy, PartialEq)]
enum At {
    File,
    SchemaElement,
    Elsewhere,
}

struct Walk<'a> {
    rest: &'a [u8],
    /// `num_children` of each schema element, if they are wanted.
    schema: Option<Vec<i64>>,
}

/// `FileMetaData.schema`, [parquet.thrift].
const SCHEMA_FIELD: i64 = 2;
/// `SchemaElement.num_children`, [parquet.thrift].
const NUM_CHILDREN_FIELD: i64 = 5;

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

impl Walk<'_> {
    fn structure(&mut self, depth: usize, at: At) -> Result<(), Flaw> {
        if depth > DEPTH_MAX {
            return Err("the metadata is nested too deeply");
        }
        if at == At::SchemaElement
            && let Some(schema) = &mut self.schema
        {
            schema.push(0);
        }
        let mut field = 0;
        loop {
            let header = self.byte()?;
            let kind = header & 0xf;
            if kind == STOP {
                return Ok(());
            }
            field = match header >> 4 {
                0 => self.zigzag()?,
                delta => field + i64::from(delta),
            };
            match (at, field, kind) {
                (At::File, SCHEMA_FIELD, LIST) => self.list(depth + 1, At::SchemaElement)?,
                (At::SchemaElement, NUM_CHILDREN_FIELD, I32) => {
                    let count = self.zigzag()?;
                    if let Some(last) = self.schema.as_mut().and_then(|schema| schema.last_mut()) {
                        *last = count;
                    }
                }
                // A struct's field has its truth value in the header.
                (_, _, TRUE | FALSE) => {}
                _ => self.value(kind, depth + 1)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Result<(), Flaw> {
        match kind {
            TRUE | FALSE | BYTE => self.byte().map(|_| ()),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.skip(8),
            BINARY => {
                let length = self.varint()?;
                self.skip(length)
            }
            LIST | SET => self.list(depth, At::Elsewhere),
            MAP => {
                let size = self.varint()?;
                if size == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                self.fits(size)?;
                for _ in 0..size {
                    self.element(kinds >> 4, depth, At::Elsewhere)?;
                    self.element(kinds & 0xf, depth, At::Elsewhere)?;
                }
                Ok(())
            }
            STRUCT => self.structure(depth, At::Elsewhere),
            UUID => self.skip(16),
            _ => Err("the metadata has a field of an unknown type"),
        }
    }

    fn list(&mut self, depth: usize, elements: At) -> Result<(), Flaw> {
        let header = self.byte()?;
        let size = match header >> 4 {
            15 => self.varint()?,
            size => u64::from(size),
        };
        self.fits(size)?;
        for _ in 0..size {
            self.element(header & 0xf, depth, elements)?;
        }
        Ok(())
    }

    fn element(&mut self, kind: u8, depth: usize, at: At) -> Result<(), Flaw> {
        match kind {
            STRUCT => self.structure(depth, at),
            _ if depth > DEPTH_MAX => Err("the metadata is nested too deeply"),
            _ => self.value(kind, depth + 1),
        }
    }

    /// I1: each element takes at least one byte.
    fn fits(&self, size: u64) -> Result<(), Flaw> {
        if size > self.rest.len() as u64 {
            Err("a list is longer than the metadata")
        } else {
            Ok(())
        }
    }

    fn byte(&mut self) -> Result<u8, Flaw> {
        let (&first, rest) = self.rest.split_first().ok_or(ENDED)?;
        self.rest = rest;
        Ok(first)
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
            check_file_metadata(&bytes),
            Err("a list is longer than the metadata")
        );
        assert_eq!(
            check_struct(&bytes),
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
        // Lists of one list each.
        let mut bytes = vec![0x19];
        bytes.extend([0x19; 10_000]);
        assert_eq!(
            check_struct(&bytes),
            Err("the metadata is nested too deeply")
        );
        // Structs in field 1.
        assert_eq!(
            check_struct(&[0x1c; 10_000]),
            Err("the metadata is nested too deeply")
        );
    }
}
