//! In which form does a result show structs and maps?

/// The form of columns that contain structs or maps, in the rows of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nested {
    /// `PostgreSQL`'s rows and arrays of rows; a map is an array of its entries.
    Rows,
    /// JSON: a map is an object.
    Json,
}

impl Nested {
    /// Every form.
    pub const ALL: [Self; 2] = [Self::Rows, Self::Json];

    /// The name of the form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Json => "json",
        }
    }

    /// The form that a setting's value names.
    pub(super) fn of(value: &str) -> Result<Self, String> {
        let name = value.trim().to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|form| form.name() == name);
        found.ok_or_else(|| format!("'{value}'; it is rows or json"))
    }
}
