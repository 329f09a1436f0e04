//! The experiments of [CoopScans07].

pub(crate) mod fig2;
pub(crate) mod fig4;
pub(crate) mod fig5;
pub(crate) mod fig6;
pub(crate) mod fig7;
pub(crate) mod fig8;
pub(crate) mod intro;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod table;
pub(crate) mod table2;
pub(crate) mod table3;
pub(crate) mod table4;
pub(crate) mod verdict;
