//! PostgreSQL's dates, times, intervals and zones: pure functions over numbers and texts.
//!
//! | file | question |
//! |---|---|
//! | `calendar` | which day is a date, and which date a day? |
//! | `zone`, `abbreviations` | which offset holds in a zone? |
//! | `split`, `words`, `read` | which moment does a text name? |
//! | `read_interval` | which interval does a text name? |
//! | `span` | how are intervals compared, scaled and justified? |
//! | `arithmetic` | what is a moment plus an interval, its age, its bin? |
//! | `fields` | what is a field of a moment or an interval? |
//! | `formats/` | `to_char`, `to_date`, `to_timestamp`, `to_number` |

mod abbreviations;
pub(crate) mod arithmetic;
pub(crate) mod calendar;
pub(crate) mod fields;
pub(crate) mod formats;
pub(crate) mod read;
pub(crate) mod read_interval;
pub(crate) mod span;
mod split;
pub(crate) mod words;
pub(crate) mod zone;
