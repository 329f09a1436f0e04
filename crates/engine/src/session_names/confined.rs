//! Creates restricted sessions, for clients that a server does not trust with everything.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;

use super::allowance::Allowance;
use super::catalogs::OwnCatalogs;
use super::index_names::IndexNames;
use super::statements::check;
use crate::inner_planner::InnerPlanner;
use crate::right::Rights;
use crate::rights::places;
use crate::settings::Settings;
use crate::tables::pending::PendingInserts;

/// Restricts sessions to rights, and all tables and names that they create, together, to a part of
/// memory. A server has one.
#[derive(Clone, Debug)]
pub struct Confinement {
    rights: Rights,
    allowance: Arc<Allowance>,
}

impl Confinement {
    /// For sessions with these rights.
    #[must_use]
    pub fn new(rights: Rights) -> Self {
        Self {
            rights,
            allowance: Arc::default(),
        }
    }

    /// The rights of the sessions.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// A restricted copy of a session. Its own names hide shared ones, only it sees them, and they
    /// are dropped with it. Run its statements with [`execute`](crate::execute), whose errors say
    /// what is refused and why.
    #[must_use]
    pub fn session(&self, context: &SessionContext) -> SessionContext {
        let state = context.state();
        let names = OwnCatalogs::new(
            Arc::clone(state.catalog_list()),
            self.rights,
            Arc::clone(&self.allowance),
            Arc::clone(&state.runtime_env().memory_pool),
        );
        let own = names.own().clone();
        let mut builder =
            SessionStateBuilder::new_from_existing(state).with_catalog_list(Arc::new(names));
        let config = builder.config().get_or_insert_default();
        config.set_extension(Arc::new(self.rights));
        config.set_extension(Arc::new(own));
        config.set_extension(Arc::new(PendingInserts::default()));
        config.set_extension(Arc::new(IndexNames::default()));
        if let Some(settings) = config.options_mut().extensions.get_mut::<Settings>() {
            settings.hold_to(self.rights);
        }
        InnerPlanner::wrap(&mut builder, |inner| Guard { inner });
        SessionContext::new_with_state(builder.build())
    }
}

/// Plans only what the session may run, however the statement reached the planner.
#[derive(Debug)]
struct Guard {
    inner: InnerPlanner,
}

#[async_trait]
impl QueryPlanner for Guard {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(state) = session.as_any().downcast_ref::<SessionState>() {
            check(state, plan)?;
        }
        if places::may_see(session.config()) {
            return self.inner.plan(plan, session).await;
        }
        // R3: the session does not see where files are.
        let plan = places::settings_hidden(plan)?;
        let physical = self.inner.plan(&plan, session).await?;
        places::explained(&plan, physical, session.config().options())
    }
}
