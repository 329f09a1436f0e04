//! The experiments behind the figures of [CoopScans07], a file for each.

pub(crate) mod fig2;
pub(crate) mod fig4;
pub(crate) mod fig5;
pub(crate) mod fig6;
pub(crate) mod fig7;
pub(crate) mod fig8;
