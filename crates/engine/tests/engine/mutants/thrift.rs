//! Parquet's metadata as a tree that can be edited and written again: Thrift's compact protocol
//! without any meaning.

/// A value. It is written as it was read, unless it was changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Byte(u8),
    /// The type in the bytes, 4 to 6, and the number.
    Int(u8, i64),
    Double([u8; 8]),
    Binary(Vec<u8>),
    /// The type of the elements, how many more (or fewer) elements the header claims than there
    /// are, and the elements.
    List(u8, i64, Vec<Value>),
    Struct(Vec<(i16, Value)>),
}

pub(crate) const LIST: u8 = 9;
pub(crate) const STRUCT: u8 = 12;

impl Value {
    /// The struct at the beginning of `bytes`, and its length.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut at = 0;
        let value = structure(bytes, &mut at, 0)?;
        Some((value, at))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn kind(&self) -> u8 {
        match self {
            Value::Bool(true) => 1,
            Value::Bool(false) => 2,
            Value::Byte(_) => 3,
            Value::Int(kind, _) => *kind,
            Value::Double(_) => 7,
            Value::Binary(_) => 8,
            Value::List(..) => LIST,
            Value::Struct(_) => STRUCT,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            // As an element of a list; in a struct the value is in the field's header.
            Value::Bool(value) => out.push(if *value { 1 } else { 2 }),
            Value::Byte(value) => out.push(*value),
            Value::Int(_, value) => varint(out, ((value << 1) ^ (value >> 63)) as u64),
            Value::Double(bytes) => out.extend(bytes),
            Value::Binary(bytes) => {
                varint(out, bytes.len() as u64);
                out.extend(bytes);
            }
            Value::List(kind, lie, elements) => {
                let size = (elements.len() as i64).saturating_add(*lie) as u64;
                if size < 15 {
                    out.push((size as u8) << 4 | kind);
                } else {
                    out.push(0xf0 | kind);
                    varint(out, size);
                }
                for element in elements {
                    element.write(out);
                }
            }
            Value::Struct(fields) => {
                let mut last = 0;
                for (id, value) in fields {
                    let delta = i32::from(*id) - last;
                    if (1..16).contains(&delta) {
                        out.push((delta as u8) << 4 | value.kind());
                    } else {
                        out.push(value.kind());
                        varint(out, u64::from(((id << 1) ^ (id >> 15)) as u16));
                    }
                    if !matches!(value, Value::Bool(_)) {
                        value.write(out);
                    }
                    last = i32::from(*id);
                }
                out.push(0);
            }
        }
    }

    /// The number of values that it contains, with itself.
    pub(crate) fn count(&self) -> usize {
        1 + match self {
            Value::List(_, _, elements) => elements.iter().map(Value::count).sum::<usize>(),
            Value::Struct(fields) => fields.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        }
    }

    /// The value at this place, in the order in which `count` counts.
    pub(crate) fn nth(&mut self, place: usize) -> Option<&mut Value> {
        if place == 0 {
            return Some(self);
        }
        let mut left = place - 1;
        let children: Vec<&mut Value> = match self {
            Value::List(_, _, elements) => elements.iter_mut().collect(),
            Value::Struct(fields) => fields.iter_mut().map(|(_, value)| value).collect(),
            _ => return None,
        };
        for child in children {
            let count = child.count();
            if left < count {
                return child.nth(left);
            }
            left -= count;
        }
        None
    }

    /// A field of a struct.
    pub(crate) fn field(&mut self, id: i16) -> Option<&mut Value> {
        let Value::Struct(fields) = self else {
            return None;
        };
        fields
            .iter_mut()
            .find(|(known, _)| *known == id)
            .map(|(_, value)| value)
    }

    pub(crate) fn elements(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::List(_, _, elements) => Some(elements),
            _ => None,
        }
    }

    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Value::Int(_, value) => Some(*value),
            _ => None,
        }
    }

    /// Sets a number in a field, which is added if it is missing.
    pub(crate) fn set(&mut self, id: i16, value: i64) {
        if let Some(known) = self.field(id) {
            *known = Value::Int(6, value);
        } else if let Value::Struct(fields) = self {
            fields.push((id, Value::Int(6, value)));
            fields.sort_by_key(|(id, _)| *id);
        }
    }

    pub(crate) fn remove(&mut self, id: i16) {
        if let Value::Struct(fields) = self {
            fields.retain(|(known, _)| *known != id);
        }
    }
}

fn structure(bytes: &[u8], at: &mut usize, depth: usize) -> Option<Value> {
    let mut fields = Vec::new();
    let mut id: i16 = 0;
    loop {
        let header = byte(bytes, at)?;
        let kind = header & 0xf;
        if kind == 0 {
            return Some(Value::Struct(fields));
        }
        id = match header >> 4 {
            0 => zigzag(read_varint(bytes, at)?) as i16,
            delta => id.checked_add(i16::from(delta))?,
        };
        let read = match kind {
            1 => Value::Bool(true),
            2 => Value::Bool(false),
            _ => value(kind, bytes, at, depth + 1)?,
        };
        fields.push((id, read));
    }
}

fn value(kind: u8, bytes: &[u8], at: &mut usize, depth: usize) -> Option<Value> {
    if depth > 64 {
        return None;
    }
    Some(match kind {
        1 | 2 => Value::Bool(byte(bytes, at)? == 1),
        3 => Value::Byte(byte(bytes, at)?),
        4..=6 => Value::Int(kind, zigzag(read_varint(bytes, at)?)),
        7 => {
            let double = bytes.get(*at..*at + 8)?.try_into().ok()?;
            *at += 8;
            Value::Double(double)
        }
        8 => {
            let length = usize::try_from(read_varint(bytes, at)?).ok()?;
            let binary = bytes.get(*at..at.checked_add(length)?)?.to_vec();
            *at += length;
            Value::Binary(binary)
        }
        9 | 10 => {
            let header = byte(bytes, at)?;
            let size = match header >> 4 {
                15 => read_varint(bytes, at)?,
                size => u64::from(size),
            };
            let elements = (0..size).map(|_| value(header & 0xf, bytes, at, depth + 1));
            Value::List(header & 0xf, 0, elements.collect::<Option<_>>()?)
        }
        12 => structure(bytes, at, depth)?,
        _ => return None,
    })
}

fn byte(bytes: &[u8], at: &mut usize) -> Option<u8> {
    let byte = *bytes.get(*at)?;
    *at += 1;
    Some(byte)
}

fn read_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes, at)?;
        value |= u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
