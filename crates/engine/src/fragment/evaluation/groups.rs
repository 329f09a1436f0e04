//! Which group does each row belong to?
//!
//! A group is a query set and the values of the grouping columns. If these are short strings,
//! integers, dates or booleans with few distinct values in a chunk, each value gets a small code,
//! and a table of codes yields the group. Any other grouping is DataFusion's ([`GroupValues`], by
//! hash). A hash replaces the table when there are too many values; groups keep their numbers.
//! Bounds: a table has `CODES_MAX` codes per column and `CELLS_MAX` cells per set.
//! G1: two rows are in one group iff they are in the same set and DataFusion would put them in one
//! group.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, StringArray, StringViewArray,
    UInt32Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeType, ArrowPrimitiveType, DataType, Date32Type, Date64Type, Field, Int8Type,
    Int16Type, Int32Type, Int64Type, Schema, SchemaRef, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use crate::read::{Integers, each_width, widen};

/// A code is found by a linear search of the known values, so there must be few.
const CODES_MAX: usize = 32;
/// Cells of a table: 16 KiB per set.
const CELLS_MAX: usize = 4096;
/// Longer strings do not fit into the word by which values are compared.
const BYTES_MAX: usize = 12;
/// A cell without a group.
const EMPTY: u32 = u32::MAX;

/// The groups of one class in one chunk job.
pub(crate) struct Groups {
    how: How,
    schema: SchemaRef,
    count: usize,
}

enum How {
    Table(Table),
    Hash(Box<dyn GroupValues>),
}

struct Table {
    columns: Vec<Codes>,
    /// The group of each cell. A set has `width` cells; the columns' codes address a cell in it.
    cells: Vec<u32>,
    /// One more than the largest cell so far.
    width: usize,
    /// The set and the cell of each group.
    groups: Vec<(u32, u32)>,
    /// The cells of a batch's rows; kept to reuse its memory.
    scratch: Vec<u32>,
}

/// The distinct values of one grouping column.
struct Codes {
    /// The word of each value: equal only for equal values. `None` is NULL.
    words: Vec<Option<u128>>,
    values: Vec<ScalarValue>,
    stride: u32,
}

/// The groups after all rows.
pub(crate) struct Emitted {
    /// The query set of each group.
    pub(crate) sets: Vec<u32>,
    /// The grouping columns, with one value per group.
    pub(crate) keys: Vec<ArrayRef>,
}

impl Groups {
    /// Groups by columns of these types.
    ///
    /// # Errors
    /// If DataFusion cannot group by a type.
    pub(crate) fn new(keys: &[Field]) -> Result<Self> {
        let set = Field::new("query_set", DataType::UInt32, false);
        let fields: Vec<Field> = std::iter::once(set).chain(keys.iter().cloned()).collect();
        let schema = Arc::new(Schema::new(fields));
        let mut groups = Self {
            how: How::Table(Table::new(keys.len())),
            schema,
            count: 0,
        };
        if !keys.iter().all(|key| has_words(key.data_type())) {
            groups.how = How::Hash(groups.hash()?);
        }
        Ok(groups)
    }

    fn hash(&self) -> Result<Box<dyn GroupValues>> {
        new_group_values(Arc::clone(&self.schema), &GroupOrdering::None)
    }

    /// The number of groups.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Writes the group of each row to `groups`. Keys may be dictionary arrays: their rows are
    /// grouped by the referenced values.
    ///
    /// # Errors
    /// The errors of DataFusion's grouping.
    pub(crate) fn assign(
        &mut self,
        sets: &[u32],
        keys: &[ArrayRef],
        groups: &mut Vec<usize>,
    ) -> Result<()> {
        if let How::Table(table) = &mut self.how {
            if table.assign(sets, keys, &self.schema, groups) {
                self.count = table.groups.len();
                return Ok(());
            }
            let mut hash = self.hash()?;
            if let How::Table(table) = &mut self.how {
                let known = table.emit()?;
                let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(known.sets))];
                columns.extend(known.keys);
                // The hash numbers groups in the order in which it first sees them, so they keep
                // their numbers.
                if self.count > 0 {
                    hash.intern(&columns, groups)?;
                }
            }
            self.how = How::Hash(hash);
        }
        if let How::Hash(hash) = &mut self.how {
            let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(sets.to_vec()))];
            let wanted = self.schema.fields().iter().skip(1);
            for (key, field) in keys.iter().zip(wanted) {
                columns.push(widen(key, field.data_type())?);
            }
            groups.clear();
            hash.intern(&columns, groups)?;
            self.count = hash.len();
        }
        Ok(())
    }

    /// Takes the groups out.
    ///
    /// # Errors
    /// The errors of DataFusion's grouping.
    pub(crate) fn emit(&mut self) -> Result<Emitted> {
        match &mut self.how {
            How::Table(table) => table.emit(),
            How::Hash(hash) => {
                let mut columns = hash.emit(EmitTo::All)?.into_iter();
                let sets = columns.next();
                let sets = sets.map(|sets| sets.as_primitive::<UInt32Type>().values().to_vec());
                Ok(Emitted {
                    sets: sets.unwrap_or_default(),
                    keys: columns.collect(),
                })
            }
        }
    }
}

impl Table {
    fn new(columns: usize) -> Self {
        let mut stride = 1;
        let mut codes = Vec::with_capacity(columns);
        for _ in 0..columns {
            codes.push(Codes {
                words: Vec::new(),
                values: Vec::new(),
                stride,
            });
            #[allow(clippy::cast_possible_truncation)] // CODES_MAX is small.
            let next = stride.saturating_mul(CODES_MAX as u32);
            stride = next;
        }
        Self {
            columns: codes,
            cells: Vec::new(),
            width: 0,
            groups: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Like [`Groups::assign`]; returns false, with `groups` unchanged, if the values do not fit
    /// the table.
    fn assign(
        &mut self,
        sets: &[u32],
        keys: &[ArrayRef],
        schema: &Schema,
        groups: &mut Vec<usize>,
    ) -> bool {
        let mut cells = std::mem::take(&mut self.scratch);
        cells.clear();
        cells.resize(sets.len(), 0);
        let fit = self
            .columns
            .iter_mut()
            .zip(keys)
            .zip(schema.fields().iter().skip(1))
            .all(|((codes, key), field)| codes.add(key, field.data_type(), &mut cells));
        let width = most(&cells);
        if fit && width <= CELLS_MAX {
            self.make_room(most(sets), width);
            groups.clear();
            groups.resize(sets.len(), 0);
            if !self.look_up(sets, &cells, groups) {
                self.number_new(sets, &cells);
                self.look_up(sets, &cells, groups);
            }
        }
        self.scratch = cells;
        fit && width <= CELLS_MAX
    }

    /// Writes the group of each row; false if a row's cell has none.
    fn look_up(&self, sets: &[u32], cells: &[u32], groups: &mut [usize]) -> bool {
        let (known, width) = (self.cells.as_slice(), self.width);
        let mut all = true;
        for ((group, set), cell) in groups.iter_mut().zip(sets).zip(cells) {
            let number = known[*set as usize * width + *cell as usize];
            all &= number != EMPTY;
            *group = number as usize;
        }
        all
    }

    /// Numbers a new group for each cell of these rows that has none, in the order of the rows.
    fn number_new(&mut self, sets: &[u32], cells: &[u32]) {
        for (set, cell) in sets.iter().zip(cells) {
            let known = &mut self.cells[*set as usize * self.width + *cell as usize];
            if *known == EMPTY {
                #[allow(clippy::cast_possible_truncation)] // A job ends before.
                let group = self.groups.len() as u32;
                *known = group;
                self.groups.push((*set, *cell));
            }
        }
    }

    /// Makes room for `sets` sets of `width` cells each.
    fn make_room(&mut self, sets: usize, width: usize) {
        if width > self.width {
            self.width = width;
            self.cells.clear();
            self.cells.resize(sets * width, EMPTY);
            for (group, (set, cell)) in (0..).zip(&self.groups) {
                let at = *set as usize * width + *cell as usize;
                if at >= self.cells.len() {
                    self.cells.resize((*set as usize + 1) * width, EMPTY);
                }
                self.cells[at] = group;
            }
        }
        if sets * self.width > self.cells.len() {
            self.cells.resize(sets * self.width, EMPTY);
        }
    }

    fn emit(&mut self) -> Result<Emitted> {
        let groups = std::mem::take(&mut self.groups);
        self.cells.clear();
        self.width = 0;
        let mut keys = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let code = |cell: u32| (cell / column.stride) as usize % CODES_MAX;
            let values = groups
                .iter()
                .map(|(_, cell)| column.values[code(*cell)].clone());
            // Without groups no value tells the type, and the caller ignores empty columns.
            if groups.is_empty() {
                continue;
            }
            keys.push(ScalarValue::iter_to_array(values)?);
        }
        Ok(Emitted {
            sets: groups.into_iter().map(|(set, _)| set).collect(),
            keys,
        })
    }
}

impl Codes {
    /// Adds the codes of a column's values to the cells of its rows; false if there are too many
    /// values, or one is too long.
    fn add(&mut self, key: &ArrayRef, wanted: &DataType, cells: &mut [u32]) -> bool {
        match key.data_type() {
            DataType::Dictionary(..) => self.add_references(key, wanted, cells),
            DataType::Utf8View => {
                let strings: &StringViewArray = key.as_string_view();
                let views = strings.views();
                if views.iter().any(|view| length_of(*view) > BYTES_MAX) {
                    return false;
                }
                self.add_words(key, cells, |row| views[row])
            }
            DataType::Utf8 => {
                let strings: &StringArray = key.as_string();
                let fits = |string: &str| string.len() <= BYTES_MAX;
                if !strings.iter().flatten().all(fits) {
                    return false;
                }
                self.add_words(key, cells, |row| word_of(strings.value(row).as_bytes()))
            }
            DataType::Boolean => {
                let booleans: &BooleanArray = key.as_boolean();
                self.add_words(key, cells, |row| u128::from(booleans.value(row)))
            }
            DataType::Int8 => self.add_primitive::<Int8Type>(key, cells),
            DataType::Int16 => self.add_primitive::<Int16Type>(key, cells),
            DataType::Int32 => self.add_primitive::<Int32Type>(key, cells),
            DataType::Int64 => self.add_primitive::<Int64Type>(key, cells),
            DataType::UInt8 => self.add_primitive::<UInt8Type>(key, cells),
            DataType::UInt16 => self.add_primitive::<UInt16Type>(key, cells),
            DataType::UInt32 => self.add_primitive::<UInt32Type>(key, cells),
            DataType::UInt64 => self.add_primitive::<UInt64Type>(key, cells),
            DataType::Date32 => self.add_primitive::<Date32Type>(key, cells),
            DataType::Date64 => self.add_primitive::<Date64Type>(key, cells),
            _ => false,
        }
    }

    fn add_primitive<T: ArrowPrimitiveType>(&mut self, key: &ArrayRef, cells: &mut [u32]) -> bool
    where
        T::Native: Into<i128>,
    {
        let numbers: &PrimitiveArray<T> = key.as_primitive();
        let values = numbers.values();
        self.add_words(key, cells, |row| {
            let number: i128 = values[row].into();
            number.cast_unsigned()
        })
    }

    /// Adds the codes of a dictionary array: each referenced value gets its code once.
    fn add_references(&mut self, key: &ArrayRef, wanted: &DataType, cells: &mut [u32]) -> bool {
        let references = key.as_any_dictionary();
        let keys = Integers::of(references.keys());
        let Some(keys) = keys.filter(|_| references.values().len() <= references.len()) else {
            return widen(key, wanted).is_ok_and(|wide| self.add(&wide, wanted, cells));
        };
        let Ok(values) = widen(references.values(), wanted) else {
            return false;
        };
        let nulls = references.keys().nulls();
        let has_nulls = nulls.is_some_and(|nulls| nulls.null_count() > 0);
        if !has_nulls && let Some(codes) = self.codes_of(&values) {
            each_width!(&keys, keys => add_codes(keys, &codes, cells));
            return true;
        }
        each_width!(&keys, keys => self.add_keys(keys, nulls, &values, wanted, cells))
    }

    /// The code of each value; `None` if there are more than `CODES_MAX`, or one is NULL or gets
    /// no code.
    fn codes_of(&mut self, values: &ArrayRef) -> Option<Vec<u32>> {
        if values.len() > CODES_MAX || values.null_count() > 0 {
            return None;
        }
        let code = |at| {
            let word = word_at(values, at)?;
            self.code(Some(word), || ScalarValue::try_from_array(values, at))
        };
        (0..values.len()).map(code).collect()
    }

    fn add_keys<K: ArrowNativeType>(
        &mut self,
        keys: &[K],
        nulls: Option<&NullBuffer>,
        values: &ArrayRef,
        wanted: &DataType,
        cells: &mut [u32],
    ) -> bool {
        let mut codes: Vec<Option<u32>> = vec![None; values.len()];
        let mut of_null = None;
        for (row, (cell, key)) in cells.iter_mut().zip(keys).enumerate() {
            let refers = nulls.is_none_or(|nulls| nulls.is_valid(row));
            let at = refers.then(|| key.as_usize());
            let at = at.filter(|at| !values.is_null(*at));
            let known = at.map_or(&mut of_null, |at| &mut codes[at]);
            let code = match *known {
                Some(code) => code,
                None => {
                    let code = match at {
                        None => self.code(None, || ScalarValue::try_from(wanted)),
                        Some(at) => word_at(values, at).and_then(|word| {
                            self.code(Some(word), || ScalarValue::try_from_array(values, at))
                        }),
                    };
                    let Some(code) = code else {
                        return false;
                    };
                    *known.insert(code)
                }
            };
            *cell = cell.saturating_add(code);
        }
        true
    }

    fn add_words(
        &mut self,
        key: &ArrayRef,
        cells: &mut [u32],
        word: impl Fn(usize) -> u128,
    ) -> bool {
        let nulls = key.nulls().filter(|nulls| nulls.null_count() > 0);
        let mut last: Option<(Option<u128>, u32)> = None;
        for (row, cell) in cells.iter_mut().enumerate() {
            let word = match nulls {
                Some(nulls) if nulls.is_null(row) => None,
                _ => Some(word(row)),
            };
            let code = match last {
                Some((known, code)) if known == word => code,
                _ => match self.code(word, || ScalarValue::try_from_array(key, row)) {
                    Some(code) => code,
                    None => return false,
                },
            };
            last = Some((word, code));
            *cell = cell.saturating_add(code);
        }
        true
    }

    /// What a value adds to the cell of its row; `None` if the table has no code for it.
    fn code(
        &mut self,
        word: Option<u128>,
        value: impl FnOnce() -> Result<ScalarValue>,
    ) -> Option<u32> {
        let known = self.words.iter().position(|known| *known == word);
        let at = match known {
            Some(at) => at,
            None if self.words.len() >= CODES_MAX => return None,
            None => {
                self.values.push(value().ok()?);
                self.words.push(word);
                self.words.len() - 1
            }
        };
        #[allow(clippy::cast_possible_truncation)] // CODES_MAX is small.
        let cell = (at as u32).checked_mul(self.stride)?;
        Some(cell)
    }
}

/// One more than the largest of the numbers; 0 without any.
fn most(numbers: &[u32]) -> usize {
    // Not `max`: it defines which of two equal numbers it returns, and so takes one at a time.
    let largest = numbers.iter().fold(0, |most, number| (*number).max(most));
    largest as usize + usize::from(!numbers.is_empty())
}

/// Adds to each row's cell the code of the referenced value.
fn add_codes<K: ArrowNativeType>(keys: &[K], codes: &[u32], cells: &mut [u32]) {
    for (cell, key) in cells.iter_mut().zip(keys) {
        *cell = cell.saturating_add(codes[key.as_usize()]);
    }
}

/// The word of a short string; `None` for a longer one.
fn word_at(strings: &ArrayRef, at: usize) -> Option<u128> {
    match strings.data_type() {
        DataType::Utf8View => {
            let view = strings.as_string_view().views()[at];
            (length_of(view) <= BYTES_MAX).then_some(view)
        }
        DataType::Utf8 => {
            let bytes = strings.as_string::<i32>().value(at).as_bytes();
            (bytes.len() <= BYTES_MAX).then(|| word_of(bytes))
        }
        _ => None,
    }
}

/// Whether values of the type can be compared as words. Floats cannot: `-0.0` and `0.0` are in one
/// group.
fn has_words(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Utf8View
                | DataType::Utf8
                | DataType::Boolean
                | DataType::Date32
                | DataType::Date64
        )
}

/// The length of a view's string: the low 32 bits.
fn length_of(view: u128) -> usize {
    #[allow(clippy::cast_possible_truncation)]
    let length = view as u32;
    length as usize
}

/// A string of at most `BYTES_MAX` bytes with its length.
fn word_of(bytes: &[u8]) -> u128 {
    let mut word = [0u8; 16];
    word[..bytes.len()].copy_from_slice(bytes);
    #[allow(clippy::cast_possible_truncation)] // At most BYTES_MAX.
    let length = bytes.len() as u8;
    word[15] = length;
    u128::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int32Array};

    use super::*;

    /// G1 for dictionary arrays: rows are grouped by the referenced values, with few rows and
    /// many, with few values and with more than a table has codes.
    #[test]
    fn references_are_grouped_by_their_values() {
        let sizes = [(3, 10), (200, 5), (200, 30), (500, 40), (30, 200)];
        for ((rows, count), nulls) in sizes.into_iter().flat_map(|s| [(s, true), (s, false)]) {
            // Several keys have equal values; some values and some references are NULL.
            let is_null = |n: usize, every: usize| nulls && n % every == 3;
            let text = |n: usize| (!is_null(n, 7)).then(|| format!("v{}", n % (count * 2 / 3)));
            let values = StringArray::from_iter((0..count).map(text));
            let key = |n: usize| (!is_null(n, 11)).then(|| i32::try_from(n * 5 % count).unwrap());
            let keys = Int32Array::from_iter((0..rows).map(key));
            let kept: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::new(values)));
            let short = coscan_storage::narrowest(Arc::clone(&kept));
            let wide = widen(&kept, &DataType::Utf8View).unwrap();
            let sets: Vec<u32> = (0..rows).map(|n| u32::from(n % 3 == 0)).collect();
            let grouped = |key: ArrayRef| {
                let field = Field::new("k", DataType::Utf8View, true);
                let mut groups = Groups::new(&[field]).unwrap();
                let mut of_rows = Vec::new();
                groups.assign(&sets, &[key], &mut of_rows).unwrap();
                let emitted = groups.emit().unwrap();
                (of_rows, emitted.sets, emitted.keys)
            };
            let expected = grouped(wide);
            assert_eq!(grouped(kept), expected, "{rows} rows, {count} values");
            assert_eq!(grouped(short), expected, "{rows} rows, {count} values");
        }
    }
}
