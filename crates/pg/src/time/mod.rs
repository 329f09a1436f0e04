//! PostgreSQL's dates, times, intervals and zones: pure functions over numbers and texts.
//!
//! | file | question |
//! |---|---|
//! | `calendar` | which day number has a date, and which date has a day number? |
//! | `zone`, `abbreviations` | which offset does a zone have at a time? |
//! | `split`, `words`, `read` | which date or time does a text denote? |
//! | `read_interval` | which interval does a text denote? |
//! | `span` | how are intervals compared, scaled and justified? |
//! | `arithmetic` | what is a timestamp plus an interval, its age, its bin? |
//! | `fields` | what is a field of a timestamp or an interval? |
//! | `formats/` | how do `to_char`, `to_date`, `to_timestamp` and `to_number` read their patterns? |

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
