//! How does a seed change a Parquet file? It changes bytes anywhere, or parses the metadata,
//! changes it and writes it again, so that the lengths in the file agree with each other.

use super::random::Random;
use super::thrift::{STRUCT, Value, varint};

/// A changed file.
pub(crate) struct Mutant {
    pub(crate) bytes: Vec<u8>,
    /// A description of the change, for a reader.
    pub(crate) what: String,
    /// The metadata may contradict the data: wrong pruning by it is not an error of the engine.
    pub(crate) lies: bool,
}

/// Changes one of these files.
pub(crate) fn mutate(files: &[Vec<u8>], random: &mut Random) -> Mutant {
    let file = random.at(files.len());
    let mut bytes = files[file].clone();
    let start = footer_start(&bytes);
    let kind = random.below(15);
    let (what, lies) = match kind {
        0 => (flip(&mut bytes, 0, usize::MAX, random), true),
        1 => (
            flip(&mut bytes, start - start / 10, usize::MAX, random),
            true,
        ),
        2 => (flip(&mut bytes, 4, start / 2, random), false),
        3 => (splice(&mut bytes, random), true),
        4..=6 => (edit_footer(&mut bytes, random), true),
        7 => (agreeing_rows(&mut bytes, random), true),
        8 | 9 => (edit_page_index(&mut bytes, random), true),
        10..=12 => (edit_page(&mut bytes, random), false),
        13 => (edit_schema(&mut bytes, random), true),
        _ => (
            transplant(&mut bytes, &files[random.at(files.len())], random),
            true,
        ),
    };
    Mutant {
        bytes,
        what: format!("file {file}: {what}"),
        lies,
    }
}

fn footer_start(bytes: &[u8]) -> usize {
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap());
    bytes.len() - 8 - length as usize
}

fn footer_of(bytes: &[u8]) -> Value {
    Value::read(&bytes[footer_start(bytes)..])
        .expect("a footer")
        .0
}

/// Writes another footer after the first `data_bytes` bytes of the file.
fn put_footer(bytes: &mut Vec<u8>, data_bytes: usize, footer: &Value) {
    bytes.truncate(data_bytes);
    let footer = footer.bytes();
    bytes.extend(&footer);
    bytes.extend((footer.len() as u32).to_le_bytes());
    bytes.extend(b"PAR1");
}

fn flip(bytes: &mut [u8], from: usize, to: usize, random: &mut Random) -> String {
    let to = to.min(bytes.len());
    let count = 1 + random.below(4);
    for _ in 0..count {
        let at = from + random.at(to - from);
        bytes[at] = match random.below(4) {
            0 => 0xff,
            1 => 0,
            2 => random.next() as u8,
            _ => bytes[at] ^ (1 << random.below(8)),
        };
    }
    format!("{count} bytes of {from}..{to}")
}

fn splice(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let length = 1 + random.at(64);
    let (from, to) = (
        random.at(bytes.len() - length),
        random.at(bytes.len() - length),
    );
    match random.below(4) {
        0 => bytes.truncate(from),
        1 => bytes.copy_within(from..from + length, to),
        2 => bytes[from..from + length].fill(0xff),
        _ => drop(bytes.drain(from..from + length)),
    }
    format!("splice of {length} at {from} to {to}")
}

/// Changes one value somewhere in the tree.
fn edit(tree: &mut Value, random: &mut Random) -> String {
    let place = random.at(tree.count());
    let Some(value) = tree.nth(place) else {
        return "nothing".to_owned();
    };
    let before = match &*value {
        Value::List(_, _, elements) => format!("a list of {}", elements.len()),
        Value::Struct(fields) => format!("a struct of {}", fields.len()),
        Value::Binary(bytes) => format!("{} bytes", bytes.len()),
        other => format!("{other:?}"),
    };
    match value {
        Value::Int(_, known) => *known = random.number(*known),
        Value::Bool(known) => *known = !*known,
        Value::Byte(known) => *known = random.next() as u8,
        Value::Double(known) => known[random.at(8)] = random.next() as u8,
        Value::Binary(known) => match random.below(3) {
            0 => known.truncate(known.len() / 2),
            1 => known.extend([0xff; 40]),
            _ => {
                let at = random.at(known.len());
                if let Some(byte) = known.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
        },
        Value::List(kind, lie, elements) => match random.below(5) {
            0 => *lie = random.number(1),
            1 => drop(elements.pop()),
            2 => elements.extend(elements.last().cloned()),
            3 => *kind = random.below(14) as u8,
            _ => {
                if let Some(element) = elements.first().cloned() {
                    elements.extend(vec![element; 1 + random.at(2000)]);
                }
            }
        },
        Value::Struct(fields) => {
            let at = random.at(fields.len());
            match (random.below(5), fields.get(at).cloned()) {
                (0, _) => drop(fields.pop()),
                (1, Some(_)) => drop(fields.remove(at)),
                (2, Some(field)) => fields.insert(at, field),
                (3, Some((id, _))) => fields[at] = (id, other_type(random)),
                _ => fields.push((random.next() as i16, other_type(random))),
            }
        }
    }
    format!("value {place} was {before}")
}

fn other_type(random: &mut Random) -> Value {
    match random.below(7) {
        0 => Value::Int(5, random.number(3)),
        1 => Value::Binary(vec![0x4c; random.at(40)]),
        2 => Value::Bool(true),
        3 => Value::List(1, random.number(3), vec![Value::Bool(true); 5]),
        4 => Value::List(STRUCT, random.number(1 << 28), Vec::new()),
        5 => {
            let mut nested = Value::Struct(Vec::new());
            for _ in 0..random.below(3000) {
                nested = Value::Struct(vec![(1, nested)]);
            }
            nested
        }
        _ => Value::Double([0xff; 8]),
    }
}

fn edit_footer(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let mut footer = footer_of(bytes);
    let start = footer_start(bytes);
    let edits: Vec<String> = (0..=random.below(3))
        .map(|_| edit(&mut footer, random))
        .collect();
    put_footer(bytes, start, &footer);
    format!("footer: {}", edits.join(", "))
}

/// Sets a row count consistently everywhere in the footer.
fn agreeing_rows(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let mut footer = footer_of(bytes);
    let start = footer_start(bytes);
    let rows = random.number(100).max(0);
    let group = random.at(3);
    let mut total: i64 = 0;
    for (number, row_group) in footer
        .field(4)
        .unwrap()
        .elements()
        .unwrap()
        .iter_mut()
        .enumerate()
    {
        if number == group {
            row_group.set(3, rows);
            for column in row_group.field(1).unwrap().elements().unwrap() {
                column.field(3).unwrap().set(5, rows);
            }
        }
        total = total.wrapping_add(row_group.field(3).and_then(|rows| rows.int()).unwrap_or(0));
    }
    footer.set(3, total);
    let mut what = format!("{rows} rows in group {group}");
    if random.below(2) == 0 {
        let kept = without_index(&mut footer);
        what.push_str(kept);
    }
    put_footer(bytes, start, &footer);
    what
}

fn without_index(footer: &mut Value) -> &'static str {
    for row_group in footer.field(4).unwrap().elements().unwrap() {
        for column in row_group.field(1).unwrap().elements().unwrap() {
            (4..8).for_each(|id| column.remove(id));
        }
    }
    ", no page index"
}

/// Changes a column index or offset index, which is then written after the data.
fn edit_page_index(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let mut footer = footer_of(bytes);
    let mut end = footer_start(bytes);
    let groups = footer.field(4).unwrap().elements().unwrap();
    let group = random.at(groups.len());
    let columns = groups[group].field(1).unwrap().elements().unwrap();
    let at = random.at(columns.len());
    let column = &mut columns[at];
    let (offset_field, length_field) = if random.below(2) == 0 { (4, 5) } else { (6, 7) };
    let known = column.field(offset_field).and_then(|offset| offset.int());
    let Some((mut index, _)) = known.and_then(|at| Value::read(bytes.get(at as usize..)?)) else {
        return edit_footer(bytes, random);
    };
    let what = edit(&mut index, random);
    let index = index.bytes();
    bytes.truncate(end);
    column.set(offset_field, end as i64);
    column.set(length_field, index.len() as i64);
    bytes.extend(&index);
    end += index.len();
    put_footer(bytes, end, &footer);
    format!("index {offset_field} of column {at} of group {group}: {what}")
}

/// Changes a page's header or the first bytes of its data; the column chunk is then written after
/// the data.
fn edit_page(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let mut footer = footer_of(bytes);
    let end = footer_start(bytes);
    let groups = footer.field(4).unwrap().elements().unwrap();
    let group = random.at(groups.len());
    let columns = groups[group].field(1).unwrap().elements().unwrap();
    let at = random.at(columns.len());
    let metadata = columns[at].field(3).unwrap();
    let int = |metadata: &mut Value, id| metadata.field(id).and_then(|value| value.int());
    let data = int(metadata, 9).unwrap();
    let dictionary = int(metadata, 11);
    let start = dictionary.unwrap_or(data) as usize;
    let length = int(metadata, 7).unwrap() as usize;
    let mut chunk = bytes[start..start + length].to_vec();

    // Reads the pages, of which one is changed.
    let mut pages = Vec::new();
    let mut page_at = 0;
    while page_at < chunk.len()
        && let Some((mut header, header_bytes)) = Value::read(&chunk[page_at..])
    {
        let page_bytes = int(&mut header, 3).unwrap_or(0) as usize;
        pages.push((page_at, header_bytes, page_bytes));
        page_at += header_bytes + page_bytes;
    }
    let page = random.at(pages.len());
    let Some(&(page_at, header_bytes, page_bytes)) = pages.get(page) else {
        return edit_footer(bytes, random);
    };
    let body = page_at + header_bytes;
    let mut what;
    if random.below(3) == 0 {
        // A number far beyond the data's size, where the page's own counts may be.
        let place = body + random.at(page_bytes.min(40));
        let mut number = Vec::new();
        varint(&mut number, random.number(1 << 40) as u64);
        let place_end = (place + number.len()).min(body + page_bytes);
        chunk[place..place_end].copy_from_slice(&number[..place_end - place]);
        what = format!("page {page} from byte {}", place - body);
    } else {
        let (mut header, _) = Value::read(&chunk[page_at..]).unwrap();
        what = edit(&mut header, random);
        chunk.splice(page_at..body, header.bytes());
        what = format!("header of page {page}: {what}");
    }
    let moved = end as i64 - start as i64;
    metadata.set(
        9,
        data + moved
            + if dictionary.is_some() && page == 0 {
                chunk.len() as i64 - length as i64
            } else {
                0
            },
    );
    if let Some(dictionary) = dictionary {
        metadata.set(11, dictionary + moved);
    }
    metadata.set(7, chunk.len() as i64);
    (4..8).for_each(|id| columns[at].remove(id));
    bytes.truncate(end);
    bytes.extend(&chunk);
    put_footer(bytes, end + chunk.len(), &footer);
    format!("column {at} of group {group}, {what}")
}

/// Makes the schema deep or wide, or changes its contents.
fn edit_schema(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let mut footer = footer_of(bytes);
    let start = footer_start(bytes);
    let schema = footer.field(2).unwrap();
    let elements = schema.elements().unwrap();
    let what = match random.below(4) {
        0 => {
            let depth = random.below(20_000) as usize;
            let group = Value::Struct(vec![
                (3, Value::Int(5, random.below(3) as i64)),
                (4, Value::Binary(b"g".to_vec())),
                (5, Value::Int(5, 1)),
            ]);
            elements.splice(1..1, vec![group; depth]);
            format!("schema nested {depth} deep")
        }
        1 => {
            let bits = random.below(20);
            let width = random.below(1 << bits) as usize;
            let leaf = elements.last().cloned().unwrap();
            elements.extend(vec![leaf; width]);
            let children = elements[0].field(5).and_then(|count| count.int()).unwrap();
            elements[0].set(5, children + width as i64);
            format!("{width} more columns")
        }
        2 => {
            let at = 1 + random.at(elements.len() - 1);
            elements[at].set(2, random.number(16));
            elements[at].set(1, random.below(9) as i64);
            format!("type of element {at}")
        }
        _ => edit(schema, random),
    };
    put_footer(bytes, start, &footer);
    what
}

/// Copies parts of another file's footer.
fn transplant(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) -> String {
    let mut footer = footer_of(bytes);
    let mut other = footer_of(other);
    let start = footer_start(bytes);
    let id = [2, 4, 5][random.at(3)];
    if let (Some(own), Some(others)) = (footer.field(id), other.field(id)) {
        *own = others.clone();
    }
    if random.below(2) == 0 {
        footer.remove(5);
    }
    put_footer(bytes, start, &footer);
    format!("field {id} of another footer")
}
