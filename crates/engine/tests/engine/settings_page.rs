//! Promised: `docs/settings.md` agrees with the table of settings, and each default there is the
//! default of sessions.
//!
//! To write the page after a change: `COSCAN_WRITE_PAGES=1 cargo test --release -p coscan --test
//! engine -- settings_page`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use coscan::{EngineConfig, SETTINGS, Session};

use crate::common::rows;

const PAGE: &str = "../../docs/settings.md";

fn page() -> String {
    let mut page = String::from(HEAD);
    for setting in SETTINGS {
        let name = setting.name;
        let flag = if setting.is_of_engine() {
            format!("`--{}`", name.replace('_', "-"))
        } else {
            String::new()
        };
        let default = match setting.default {
            "" => "empty".to_owned(),
            default => default.to_owned(),
        };
        let (values, help) = (setting.values(), setting.help);
        let applies = setting.applies_to;
        let line =
            format!("| `coscan.{name}` | {flag} | {values} | {default} | {help} | {applies} |");
        writeln!(page, "{line}").expect("a String takes all");
    }
    page
}

const HEAD: &str = "# Settings

`SET coscan.policy = 'elevator'` changes a session's, `RESET` undoes it, `SHOW ALL` shows them. The
flags are those of `coscan sql` and `coscan serve`: what all sessions start with. Made from
`crates/engine/src/settings/table.rs` by the test that compares it.

| setting | flag | values | default | what it does | applies to |
|---|---|---|---|---|---|
";

#[test]
fn the_page_agrees_with_the_table() {
    let path = Path::new(PAGE);
    if std::env::var_os("COSCAN_WRITE_PAGES").is_some() {
        fs::write(path, page()).expect("written");
    }
    let written = fs::read_to_string(path).expect("docs/settings.md");
    assert!(
        written == page(),
        "docs/settings.md differs from the table of settings: run the command in this file's header"
    );
}

#[tokio::test]
async fn defaults_are_those_that_sessions_have() {
    let session = Session::open().expect("an engine");
    for setting in SETTINGS {
        let name = setting.name;
        // The default follows from the memory budget; it is not a constant.
        if ["memory", "state_cache"].contains(&name) {
            continue;
        }
        let sql = format!(
            "SELECT value FROM information_schema.df_settings WHERE name = 'coscan.{name}'"
        );
        let shown = rows(&session, &sql).await.concat();
        session
            .set(&format!("coscan.{name}"), setting.default)
            .expect("a default can be set");
        assert_eq!(rows(&session, &sql).await.concat(), shown, "{name}");
    }
}

#[test]
fn an_engine_takes_the_values_that_set_takes() {
    let mut config = EngineConfig::default();
    for setting in SETTINGS.iter().filter(|setting| setting.is_of_engine()) {
        let nonsense = config.set(setting.name, "no such value");
        assert_eq!(
            nonsense.is_ok(),
            setting.name == "index_folder",
            "{}",
            setting.name
        );
    }
    assert!(config.set("policy", "elevator").is_ok());
    assert!(config.set("label", "x").is_err(), "a session's own");
    let error = config
        .set("policy", "fifo")
        .expect_err("unknown")
        .to_string();
    assert!(error.contains("pbm-sampling"), "{error}");
    let chunk_bytes = 0;
    let refused = coscan::Engine::new(EngineConfig {
        chunk_bytes,
        ..EngineConfig::default()
    });
    assert!(refused.is_err(), "chunks of nothing");
}
