//! Passes over expressions: PostgreSQL's syntax as calls and operators that DataFusion plans.
//!
//! | pass | from | to |
//! |---|---|---|
//! | `arrays` | `'{1,2}'::int[]`, `x = ANY('{…}')`, `ARRAY(SELECT …)` | array expressions |
//! | `conditions` | `b AND 'true'`, `ON 'true'` | booleans |
//! | `hypothetical` | `rank(v) WITHIN GROUP (ORDER BY e)` | counts of rows |
//! | `frames` | `ROWS 1 + 1 PRECEDING`, `RANGE '1 day' PRECEDING` | frames with numbers and plain intervals |
//! | `times` | `INTERVAL`, `AT TIME ZONE`, `OVERLAPS` | calls of functions |
//! | `named_arguments` | `jsonb_insert(…, insert_after => true)` | arguments in their places |
//! | `variadic` | `concat(VARIADIC a)` | calls that take the array |
//! | `sets` | functions of sets in FROM | subqueries that unnest arrays |
//! | `whole_rows` | `row_to_json(t)` | one more column of `t` |
//! | `rows` | `(a, b) = (c, d)` | comparisons of single values |
//! | `texts` | `substring(a from b)`, LIKE, `~`, ANY, `json_agg` | calls of our functions |
//! | `literals` | numbers, casts | numbers of PostgreSQL's types, calls of `pg_cast` |

mod arrays;
mod conditions;
mod frames;
mod hypothetical;
pub(super) mod literals;
mod named_arguments;
mod rows;
mod sets;
mod texts;
mod times;
mod variadic;
pub(super) mod whole_rows;

pub(super) use arrays::Arrays;
pub use arrays::{AS_ARRAY, elements};
pub(crate) use arrays::{OR_EMPTY, nested};
pub(super) use conditions::Conditions;
pub(crate) use frames::{TEXT_OFFSET, parameter_in};
pub(super) use hypothetical::Hypothetical;
pub(crate) use literals::{DISTINCT, NOT_DISTINCT};
pub(super) use named_arguments::NamedArguments;
pub(super) use rows::{Rows, fields};
pub(super) use sets::{Sets, array_of_set};
pub(super) use texts::Texts;
pub(super) use times::Times;
pub(super) use variadic::Variadic;
pub(crate) use whole_rows::{FIELD, ROWS_OF, WHOLE, row_column};

/// `subscripts(array, dimension)`: the array 1, 2, …, with one number per element. It is empty for
/// every dimension but the first, because arrays have only one.
pub(crate) const SUBSCRIPTS: &str = "subscripts";
