//! SET, SHOW and RESET: PostgreSQL's settings, which the connection keeps, and the session's own.
//!
//! A dotted name (`coscan.policy`, `datafusion.execution.batch_size`) belongs to the session's
//! configuration and is set there, or to the client (`custom.rs`). Any other name is PostgreSQL's.
//! A few of these settings have an effect. Those that only tune what Coscan does not have are kept
//! and shown. Those that would change how values look accept only the format that values have
//! anyway. An unknown name is an error.
//!
//! C1: a setting that affects others needs the right (`coscan::Rights`), for SET and for RESET.
//! C2: `RESET ALL` and `DISCARD ALL` reset only the session's settings. `coscan.memory`, which all
//! sessions share, returns to the engine's original value only if RESET names it.

mod board;
mod custom;
mod described;
mod known;
mod local;
mod modes;
mod saved;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coscan::{Rights, Severity, TEMPORARY_SCHEMA, TransactionModes};
use coscan_pg::output::IntervalStyle;
use datafusion::common::config::{ConfigEntry, ConfigOptions};
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{ContextModifier, Expr, Set, TransactionMode, Value};

use self::custom::is_custom;
use self::known::{KNOWN, Known, MESSAGES, Rule};
use self::local::Local;
use crate::failure::Failure;
use crate::net::Keepalive;

pub(crate) use self::board::{Board, Published};
pub(crate) use self::described::described;
pub(crate) use self::known::VERSION;
pub(crate) use self::saved::SavedSettings;

/// One connection's settings.
pub(crate) struct Settings {
    /// The settings of `KNOWN` that differ from their defaults, by name.
    changed: BTreeMap<&'static str, String>,
    /// The values that RESET restores: those of the startup message and of the factory.
    initial: SavedSettings,
    /// The timeouts that are set, by name.
    timeouts: BTreeMap<&'static str, Duration>,
    keepalive: Keepalive,
    /// The user's name, for `session_authorization`.
    user: String,
    /// The rights of the session (C1).
    rights: Rights,
    board: Arc<Board>,
    /// The settings that SET LOCAL changed in this transaction, with their old values
    /// (`local.rs`).
    local: Local,
}

/// A changed setting that is reported to the client (`ParameterStatus`).
pub(crate) type Report = Option<(&'static str, String)>;

/// A row of SHOW.
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) description: &'static str,
}

impl Settings {
    /// Whether the session may name files of the server, and so may see their folders in messages.
    pub(crate) fn may_name_files(&self) -> bool {
        self.rights.files
    }

    pub(crate) fn new(session: &SessionContext, user: &str, rights: Rights) -> Self {
        let state = session.state();
        let initial = SavedSettings {
            options: Arc::clone(state.config().options()),
            ..SavedSettings::default()
        };
        let settings = Self {
            changed: BTreeMap::new(),
            initial,
            timeouts: BTreeMap::new(),
            keepalive: Keepalive::default(),
            user: user.to_owned(),
            rights,
            board: state.config().get_extension().unwrap_or_default(),
            local: Local::default(),
        };
        settings.publish(session);
        settings
    }

    /// Publishes the current values for queries to read.
    fn publish(&self, session: &SessionContext) {
        let values = KNOWN.iter().map(|known| self.published(session, known));
        self.board.publish(values.collect());
    }

    fn published(&self, session: &SessionContext, known: &Known) -> Published {
        let value = self.value(session, known);
        let (now, then) = (
            self.changed.get(known.name),
            self.initial.changed.get(known.name),
        );
        let source = match then {
            _ if modes::default_of(known.name).is_some() => "override",
            then if now != then => "session",
            Some(_) => "client",
            None if value == known.default => "default",
            None => "configuration file",
        };
        // Only a time zone may be configured for all connections.
        let reset = match (then, known.name) {
            (Some(then), _) => then.clone(),
            (None, "TimeZone") => {
                let zone = self.initial.options.execution.time_zone.as_deref();
                coscan_pg::zone_text(zone.unwrap_or(known.default))
            }
            (None, _) => known.default.to_owned(),
        };
        Published {
            name: known.name,
            value,
            default: known.default,
            reset,
            source,
            is_fixed: matches!(known.rule, Rule::ReadOnly),
        }
    }

    /// Whether the client wants notices of this severity.
    pub(crate) fn wants(&self, severity: Severity) -> bool {
        match self.changed.get(MESSAGES).map(String::as_str) {
            Some("error") => false,
            Some("warning") => severity >= Severity::Warning,
            _ => true,
        }
    }

    /// How long a statement may take.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.timeouts.get("statement_timeout").copied()
    }

    /// How long the client may be idle, in a transaction or outside of one.
    pub(crate) fn idle_timeout(&self, in_transaction: bool) -> Option<Duration> {
        let name = if in_transaction {
            "idle_in_transaction_session_timeout"
        } else {
            "idle_session_timeout"
        };
        self.timeouts.get(name).copied()
    }

    /// The keepalive settings of the client's socket.
    pub(crate) fn keepalive(&self) -> Keepalive {
        self.keepalive
    }

    /// The settings reported to a client when it connects.
    pub(crate) fn reports(&self, session: &SessionContext) -> Vec<(&'static str, String)> {
        KNOWN
            .iter()
            .filter(|known| known.reported)
            .map(|known| (known.name, self.value(session, known)))
            .collect()
    }

    /// Carries out a SET statement.
    pub(crate) async fn apply(
        &mut self,
        session: &SessionContext,
        set: &Set,
        in_transaction: bool,
    ) -> Result<Report, Failure> {
        match set {
            Set::SingleAssignment {
                scope: Some(ContextModifier::Global),
                ..
            } => Err(Failure::unsupported(
                "settings belong to one connection; use SET",
            )),
            Set::SingleAssignment {
                scope,
                variable,
                values,
                ..
            } => {
                let name = variable.to_string().to_lowercase().replace('"', "");
                let local = matches!(scope, Some(ContextModifier::Local));
                let local = local || modes::default_of(&name).is_some();
                self.assign(session, &name, values, local.then_some(in_transaction))
                    .await
            }
            Set::SetTimeZone { local, value } => {
                let value = std::slice::from_ref(value);
                self.assign(session, "timezone", value, local.then_some(in_transaction))
                    .await
            }
            Set::SetNames { charset_name, .. } => {
                self.set(session, "client_encoding", &charset_name.value)
                    .await
            }
            Set::SetTransaction {
                snapshot: Some(_), ..
            } => Err(Failure::unsupported("snapshots are not exported")),
            Set::SetTransaction {
                modes,
                session: true,
                ..
            } => self.set_default_modes(session, modes).await,
            Set::SetTransaction { modes, .. } => {
                if in_transaction {
                    self.set_modes(session, modes).await?;
                }
                Ok(None)
            }
            Set::SetNamesDefault {} => Ok(None),
            Set::SetRole {
                role_name: None, ..
            } => Ok(None),
            other => Err(Failure::unsupported(format!("not supported: SET {other}"))),
        }
    }

    /// Sets the modes of the session's next transactions.
    async fn set_default_modes(
        &mut self,
        session: &SessionContext,
        modes: &[TransactionMode],
    ) -> Result<Report, Failure> {
        let mut report = None;
        for (name, value) in modes::settings(modes) {
            let name = modes::default_of(name).unwrap_or(name);
            self.forget(name);
            report = self.set(session, name, value).await?.or(report);
        }
        Ok(report)
    }

    /// Sets the modes of the current transaction.
    pub(crate) async fn set_modes(
        &mut self,
        session: &SessionContext,
        modes: &[TransactionMode],
    ) -> Result<(), Failure> {
        for (name, value) in modes::settings(modes) {
            self.remember(session, name)?;
            self.set(session, name, value).await?;
        }
        Ok(())
    }

    /// Keeps the modes of the current transaction, whatever becomes of the defaults, which are for
    /// later ones.
    pub(crate) fn keep_modes(&mut self, session: &SessionContext) -> Result<(), Failure> {
        let now = self.modes(session).written();
        for (name, value) in modes::settings(&now) {
            self.remember(session, name)?;
            self.changed.insert(name, value.to_owned());
        }
        Ok(())
    }

    /// The modes of the current transaction, or of the next one.
    pub(crate) fn modes(&self, session: &SessionContext) -> TransactionModes {
        let value = |name| find(name).map(|known| self.value(session, known));
        TransactionModes {
            read_only: value(modes::READ_ONLY).is_ok_and(|value| value == "on"),
            isolation: value(modes::ISOLATION).unwrap_or_default(),
        }
    }

    /// Runs `SET name = values`. `local` is `Some` for SET LOCAL, and says whether a transaction
    /// is open.
    async fn assign(
        &mut self,
        session: &SessionContext,
        name: &str,
        values: &[Expr],
        local: Option<bool>,
    ) -> Result<Report, Failure> {
        let value = match values {
            [value] if is_default(value) => None,
            values => {
                let texts = values.iter().map(text).collect::<Result<Vec<_>, _>>()?;
                Some(texts.join(", "))
            }
        };
        match local {
            Some(false) => return Ok(None),
            Some(true) => self.remember(session, name)?,
            None => self.forget(name),
        }
        match value {
            Some(value) => self.set(session, name, &value).await,
            None => self.reset(session, name).await,
        }
    }

    /// Sets one setting by name.
    pub(crate) async fn set(
        &mut self,
        session: &SessionContext,
        name: &str,
        value: &str,
    ) -> Result<Report, Failure> {
        self.rights.check_setting(name, Some(value))?;
        if is_custom(session, name) {
            return self.set_custom(name, value).map(|()| None);
        }
        if name.contains('.') {
            return configure(session, name, value).await.map(|()| None);
        }
        let known = find(name)?;
        let value = value.trim();
        let kept = match known.rule {
            Rule::Kept => value.to_owned(),
            Rule::Boolean => on_or_off(known, value)?.to_owned(),
            Rule::One(values) => {
                let found = values
                    .iter()
                    .find(|known| known.eq_ignore_ascii_case(value));
                let found = found.ok_or_else(|| invalid(known.name, value))?;
                (*found).to_owned()
            }
            Rule::Fixed(accepted) => {
                check_fixed(known, accepted, value)?;
                known.default.to_owned()
            }
            Rule::ReadOnly => {
                let name = known.name;
                return Err(Failure::new("55P02", format!("{name} cannot be changed")));
            }
            Rule::Timeout => self.set_timeout(known, value)?,
            Rule::Keepalive => self.set_keepalive(known.name, value)?.to_string(),
            Rule::IntervalStyle => {
                let style = IntervalStyle::named(&value.to_lowercase());
                let style = style.ok_or_else(|| invalid(known.name, value))?;
                configure(session, IntervalStyle::OPTION, style.name()).await?;
                style.name().to_owned()
            }
            Rule::TimeZone => {
                let zone = coscan_pg::zone_name(value);
                let zone = zone.ok_or_else(|| invalid(known.name, value))?;
                configure(session, TIME_ZONE, &zone).await?;
                coscan_pg::zone_text(&zone)
            }
            Rule::SearchPath => {
                let schema = first_schema(session, value);
                let schema = schema.as_deref().unwrap_or(TEMPORARY_SCHEMA);
                configure(session, DEFAULT_SCHEMA, schema).await?;
                value.to_owned()
            }
        };
        self.changed.insert(known.name, kept);
        self.publish(session);
        Ok(known
            .reported
            .then(|| (known.name, self.value(session, known))))
    }

    /// Resets one setting to its value at the time of connecting.
    pub(crate) async fn reset(
        &mut self,
        session: &SessionContext,
        name: &str,
    ) -> Result<Report, Failure> {
        self.rights.check_setting(name, None)?;
        if name == MEMORY || name == CHECKSUMS {
            return configure(session, name, "default").await.map(|()| None);
        }
        if is_custom(session, name) {
            match self.initial.custom.get(&name.to_lowercase()) {
                Some(value) => self.set_custom(name, value)?,
                None => self.board.forget_custom(name),
            }
            return Ok(None);
        }
        if name.contains('.') {
            let value = entry(&self.initial.options, name)?;
            return restore(session, name, value).await.map(|()| None);
        }
        let known = find(name)?;
        match self.initial.changed.get(known.name) {
            Some(value) => self.changed.insert(known.name, value.clone()),
            None => self.changed.remove(known.name),
        };
        self.reset_effects(session, known).await?;
        self.publish(session);
        Ok(known
            .reported
            .then(|| (known.name, self.value(session, known))))
    }

    /// Resets what a setting changes beside its value.
    async fn reset_effects(
        &mut self,
        session: &SessionContext,
        known: &'static Known,
    ) -> Result<(), Failure> {
        match known.rule {
            Rule::Timeout => match self.initial.timeouts.get(known.name) {
                Some(timeout) => drop(self.timeouts.insert(known.name, *timeout)),
                None => drop(self.timeouts.remove(known.name)),
            },
            Rule::Keepalive => {
                let mut initial = self.initial.keepalive;
                let settings = (
                    self.keepalive.setting(known.name),
                    initial.setting(known.name),
                );
                if let (Some(setting), Some(initial)) = settings {
                    *setting = *initial;
                }
            }
            Rule::IntervalStyle => {
                let style = self.value(session, known);
                configure(session, IntervalStyle::OPTION, &style).await?;
            }
            Rule::TimeZone => {
                let zone = self.initial.options.execution.time_zone.clone();
                restore(session, TIME_ZONE, zone).await?;
            }
            Rule::SearchPath => {
                let schema = match self.changed.get(known.name) {
                    Some(path) => first_schema(session, path).unwrap_or_default(),
                    None => self.initial.options.catalog.default_schema.clone(),
                };
                configure(session, DEFAULT_SCHEMA, &schema).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes a timeout, and returns it as SHOW writes it; 0 stands for none.
    fn set_timeout(&mut self, known: &'static Known, value: &str) -> Result<String, Failure> {
        let timeout = duration(value).ok_or_else(|| invalid(known.name, value))?;
        if timeout.is_zero() {
            self.timeouts.remove(known.name);
        } else {
            self.timeouts.insert(known.name, timeout);
        }
        Ok(show_duration(timeout))
    }

    /// Changes a keepalive setting. Returns its new value; 0 restores the default.
    fn set_keepalive(&mut self, name: &str, value: &str) -> Result<u32, Failure> {
        let of_seconds = || {
            let time = duration(value).filter(|time| time.subsec_nanos() == 0)?;
            u32::try_from(time.as_secs()).ok()
        };
        let of_ms = || u32::try_from(duration(value)?.as_millis()).ok();
        let (most, number) = match name {
            "tcp_user_timeout" => (u32::MAX, value.parse().ok().or_else(of_ms)),
            "tcp_keepalives_count" => (KEEPALIVE_COUNT_MAX, value.parse().ok()),
            _ => (
                KEEPALIVE_SECONDS_MAX,
                value.parse().ok().or_else(of_seconds),
            ),
        };
        let number = number.filter(|number| *number <= most);
        let mut number: u32 = number.ok_or_else(|| invalid(name, value))?;
        if number == 0 {
            number = Keepalive::default()
                .setting(name)
                .copied()
                .unwrap_or_default();
        }
        if let Some(setting) = self.keepalive.setting(name) {
            *setting = number;
        }
        Ok(number)
    }

    /// The rows of SHOW: one setting, or all of them for `all`.
    pub(crate) fn show(&self, session: &SessionContext, name: &str) -> Result<Vec<Shown>, Failure> {
        let state = session.state();
        let options = state.config().options();
        if name == "all" {
            let ours = KNOWN.iter().map(|known| Shown {
                name: known.name.to_owned(),
                value: Some(self.value(session, known)),
                description: described(known.name).map_or("", |described| described.short),
            });
            let theirs = entries(options).into_iter().map(|entry| Shown {
                name: entry.key,
                value: entry.value,
                description: entry.description,
            });
            return Ok(ours.chain(theirs).collect());
        }
        if is_custom(session, name) {
            return self.show_custom(name);
        }
        let (name, value) = if name.contains('.') {
            (name.to_owned(), entry(options, name)?)
        } else {
            let known = find(name)?;
            (known.name.to_owned(), Some(self.value(session, known)))
        };
        Ok(vec![Shown {
            name,
            value,
            description: "",
        }])
    }

    /// The name under which SHOW shows `name`, which may not exist.
    pub(crate) fn shown_name(name: &str) -> String {
        find(name).map_or_else(|_| name.to_owned(), |known| known.name.to_owned())
    }

    fn value(&self, session: &SessionContext, known: &Known) -> String {
        match known.name {
            "session_authorization" => self.user.clone(),
            "TimeZone" => {
                let zone = session
                    .state()
                    .config()
                    .options()
                    .execution
                    .time_zone
                    .clone();
                let zone = zone.as_deref().unwrap_or(known.default);
                coscan_pg::zone_text(zone)
            }
            name => match (self.changed.get(name), modes::default_of(name)) {
                (Some(changed), _) => changed.clone(),
                (None, Some(default)) => {
                    let default = self.changed.get(default).cloned();
                    default.unwrap_or_else(|| known.default.to_owned())
                }
                (None, None) => known.default.to_owned(),
            },
        }
    }
}

const TIME_ZONE: &str = "datafusion.execution.time_zone";
const DEFAULT_SCHEMA: &str = "datafusion.catalog.default_schema";
const MEMORY: &str = "coscan.memory";
/// Applies to all sessions, like [`MEMORY`].
const CHECKSUMS: &str = "coscan.checksums";
/// Linux's limits.
const KEEPALIVE_SECONDS_MAX: u32 = 32_767;
const KEEPALIVE_COUNT_MAX: u32 = 127;

fn find(name: &str) -> Result<&'static Known, Failure> {
    KNOWN
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> Failure {
    Failure::new(
        "42704",
        format!("unrecognized configuration parameter {name:?}"),
    )
}

fn invalid(name: &str, value: &str) -> Failure {
    Failure::new(
        "22023",
        format!("invalid value for parameter {name:?}: {value:?}"),
    )
}

/// All options, each under the name that SET uses: an extension's keys may or may not have its
/// prefix.
fn entries(options: &ConfigOptions) -> Vec<ConfigEntry> {
    let mut entries = options.entries();
    entries.retain(|entry| entry.key.starts_with("datafusion."));
    for (prefix, extension) in options.extensions.iter() {
        entries.extend(extension.entries().into_iter().map(|mut entry| {
            if !entry
                .key
                .strip_prefix(prefix)
                .is_some_and(|key| key.starts_with('.'))
            {
                entry.key = format!("{prefix}.{}", entry.key);
            }
            entry
        }));
    }
    entries
}

fn entry(options: &ConfigOptions, name: &str) -> Result<Option<String>, Failure> {
    let entry = entries(options).into_iter().find(|entry| entry.key == name);
    entry.map(|entry| entry.value).ok_or_else(|| unknown(name))
}

/// The value of an option as text; `None` if there is no such option, or it has no value.
pub(crate) fn entry_text(options: &ConfigOptions, name: &str) -> Option<String> {
    entry(options, &name.to_lowercase()).ok().flatten()
}

/// Sets an option of the session's configuration, and refreshes the functions that depend on it.
async fn configure(session: &SessionContext, name: &str, value: &str) -> Result<(), Failure> {
    let set = SetVariable {
        variable: name.to_owned(),
        value: value.to_owned(),
    };
    let plan = LogicalPlan::Statement(Statement::SetVariable(set));
    match coscan::execute(session, session.state(), plan).await {
        Ok(_) => Ok(()),
        Err(error) if coscan::is_denied(&error) => Err(error.into()),
        Err(error) => {
            let text = error.strip_backtrace();
            Err(Failure::new(coscan_pg::configuration_code(&text), text))
        }
    }
}

async fn restore(
    session: &SessionContext,
    name: &str,
    value: Option<String>,
) -> Result<(), Failure> {
    if let Some(value) = value {
        return configure(session, name, &value).await;
    }
    // A SET, which takes text, could not restore an option that has no value.
    let reset = datafusion::logical_expr::ResetVariable {
        variable: name.to_owned(),
    };
    let plan = LogicalPlan::Statement(Statement::ResetVariable(reset));
    session
        .execute_logical_plan(plan)
        .await
        .map(drop)
        .map_err(Failure::from)
}

/// The first existing schema of a search path: unqualified names resolve in one schema only.
/// `None` if none exists.
fn first_schema(session: &SessionContext, path: &str) -> Option<String> {
    let state = session.state();
    let catalog = state
        .catalog_list()
        .catalog(&state.config_options().catalog.default_catalog)?;
    let implicit = ["pg_catalog", TEMPORARY_SCHEMA];
    path.split(',')
        .map(|schema| schema.trim().trim_matches('"'))
        .find(|schema| !implicit.contains(schema) && catalog.schema(schema).is_some())
        .map(str::to_owned)
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(word)
        if word.quote_style.is_none()
            && (word.value.eq_ignore_ascii_case("default") || word.value.eq_ignore_ascii_case("local")))
}

/// The value of a setting as text: literals without their quotes, words folded.
fn text(value: &Expr) -> Result<String, Failure> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Ok(digits.clone()),
            Value::Boolean(value) => Ok(value.to_string()),
            other => match other.clone().into_string() {
                Some(text) => Ok(text),
                None => Err(Failure::syntax(format!(
                    "not a value for a setting: {other}"
                ))),
            },
        },
        Expr::Identifier(word) => Ok(match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_ascii_lowercase(),
        }),
        Expr::CompoundIdentifier(_) | Expr::UnaryOp { .. } => {
            Ok(value.to_string().replace(' ', ""))
        }
        other => Err(Failure::syntax(format!(
            "not a value for a setting: {other}"
        ))),
    }
}

/// The value of a Boolean setting.
fn on_or_off(known: &Known, value: &str) -> Result<&'static str, Failure> {
    match boolean(value) {
        Some(true) => Ok("on"),
        Some(false) => Ok("off"),
        None => {
            let text = format!("parameter {:?} requires a Boolean value", known.name);
            Err(Failure::new("22023", text))
        }
    }
}

/// Checks that a setting that never changes is given a word for its value.
fn check_fixed(known: &Known, accepted: &[&str], value: &str) -> Result<(), Failure> {
    // asyncpg quotes its encoding.
    let wanted = value.trim_matches('\'').to_lowercase();
    if accepted.contains(&wanted.as_str()) {
        return Ok(());
    }
    let (name, default) = (known.name, known.default);
    let text = format!("{name} is always {default}: cannot be {value:?}");
    Err(Failure::new("22023", text))
}

/// Parses a boolean as PostgreSQL does: a prefix of a word is enough if it is unambiguous.
fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |words: [&str; 2]| words.iter().any(|word| word.starts_with(&text));
    match text.as_str() {
        "" | "o" => None,
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        _ if begins(["true", "yes"]) => Some(true),
        _ if begins(["false", "no"]) => Some(false),
        _ => None,
    }
}

/// Parses a time as PostgreSQL does: a number of milliseconds, or a number with a unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let number: u64 = digits.parse().ok()?;
    let ms = match text[digits.len()..].trim() {
        "" | "ms" => number,
        "us" => number / 1000,
        "s" => number.checked_mul(1000)?,
        "min" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        "d" => number.checked_mul(86_400_000)?,
        _ => return None,
    };
    (i32::try_from(ms).is_ok()).then(|| Duration::from_millis(ms))
}

fn show_duration(duration: Duration) -> String {
    match duration.as_millis() {
        0 => "0".to_owned(),
        ms if ms.is_multiple_of(60_000) => format!("{}min", ms / 60_000),
        ms if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_postgres() {
        assert_eq!(duration("250"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2 min"), Some(Duration::from_secs(120)));
        assert_eq!(duration("-1"), None);
        assert_eq!(duration("9999999999999"), None);
        assert_eq!(show_duration(Duration::from_secs(5)), "5s");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = KNOWN
            .iter()
            .map(|known| known.name.to_lowercase())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KNOWN.len());
    }

    #[tokio::test]
    async fn reset_all_restores_the_sessions_settings() {
        let session = SessionContext::new();
        let mut settings = Settings::new(&session, "me", Rights::NONE);
        let name = "datafusion.execution.batch_size";
        let before = settings.show(&session, name).unwrap().remove(0).value;
        settings.set(&session, name, "17").await.unwrap();
        settings
            .set(&session, "timezone", "Europe/Berlin")
            .await
            .unwrap();
        assert_eq!(
            settings.show(&session, name).unwrap()[0].value.as_deref(),
            Some("17")
        );
        settings.reset_all(&session).await.unwrap();
        assert_eq!(settings.show(&session, name).unwrap()[0].value, before);
        assert_eq!(session.state().config().options().execution.time_zone, None);
    }

    #[tokio::test]
    async fn sessions_cannot_change_the_shared_budget() {
        let session = SessionContext::new();
        let mut settings = Settings::new(&session, "me", Rights::ALL);
        let name = "datafusion.runtime.memory_limit";
        let set = settings.set(&session, name, "1G").await;
        assert!(set.unwrap_err().to_string().contains("42501"));
        let reset = settings.reset(&session, name).await;
        assert!(reset.unwrap_err().to_string().contains("42501"));
    }
}
