//! Which query's task runs next?
//!
//! Idea: a query is executed by tasks; each task runs for a moment, one batch, whenever it has
//! something to do. As many tasks run at a time as there are workers; the others wait here.
//! Queries are in levels by the processor time that they have used, or are expected to use if that
//! is more. A level with waiting tasks gets [`Config::ratio`] times as much time as the next
//! level, however many tasks wait there. So a short query is answered while a hundred long queries
//! run, and these continue at a known share. Within a level, queries are served in the order of
//! arrival. If each client waits for its answer before it sends its next query, the mean of all
//! latencies is the number of clients divided by the throughput, whatever the order (Little's
//! law); and the latencies of similar queries differ least if the queries end in the order in
//! which they arrived. Then also no more queries hold memory at a time than keep the workers busy.
//!
//! Expectations come from statistics and may be wrong by any factor. One that is too low costs
//! nothing, because the used time corrects it; one that is too high costs a query at most the
//! levels up to [`Config::expected_max_ns`]. Without expectations a hundred joins that arrive
//! together would all pass through the levels of short queries, and a short query that arrives
//! then would wait for most of their work.
//!
//! A running task is not interrupted, and it may compute for long: building a hash table is one
//! step. So there are more workers than cores, and some workers serve only queries of the first
//! levels: these run beside the long tasks, at the share that the operating system's scheduler
//! gives them.
//!
//! ```text
//! begin ─ enter ─ Run ── leave ─ … ─ end
//!               └ Wait ─ (the leave of another task returns this one) ─ enter ─ Run
//! ```
//! Not here: tasks, wakers, the clock (the engine).
//! Bounds: one entry per waiting task.
//!
//! TASKS-I1: no task waits while a worker that may run it is free.
//! TASKS-I2: the taken workers are those of the running tasks and of the tasks called to run; at
//! most `cores` of these tasks belong to long queries.
//! TASKS-I3: a level with waiting tasks gets its share of the time: with weights `w`, after a
//! total of `t` it has got `t · w / Σw`, as far as one task at a time can run.
//! TASKS-I4: within a level no task runs before a waiting task of a query that arrived earlier.
//! TASKS-I5: the short queries are those with a task that waits or runs in one of their places; a
//! task keeps its place when its query becomes long.
//! Source: [StrideSched95 §2], [TaskSched21 §3], where priorities decay with use. We differ:
//! levels have shares, not queries; otherwise many long queries would together have many times the
//! share of a short one.

use std::collections::BTreeMap;

/// The id of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

/// The id of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// The bounds.
#[derive(Clone, Debug)]
pub struct Config {
    /// The most tasks of long queries that run at a time, at least 1.
    pub cores: usize,
    /// The most tasks that run at a time, at least `cores`.
    pub workers: usize,
    /// The number of levels, from the first, that are for short queries.
    pub short_levels: usize,
    /// The upper ends of the levels, ascending: nanoseconds that a query has used.
    pub level_ends: Vec<u64>,
    /// How many times as much time a level gets as the level after it.
    pub ratio: u64,
    /// The most nanoseconds that an expectation counts for.
    pub expected_max_ns: u64,
}

impl Config {
    fn level(&self, query: &Query) -> usize {
        let work = query.used_ns.max(query.expected_ns);
        self.level_ends.iter().filter(|end| **end <= work).count()
    }
}

/// What a task that has something to do should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It runs, and calls [`Tasks::leave`] afterwards.
    Run,
    /// It waits until the `leave` of another task names it.
    Wait,
}

/// The running and waiting tasks.
#[derive(Clone, Debug)]
pub struct Tasks {
    config: Config,
    /// TASKS-I2: the number of workers taken.
    taken: usize,
    /// How many of these long queries have.
    taken_by_long: usize,
    queries: BTreeMap<QueryId, Query>,
    levels: Vec<Level>,
    /// The `used` of the level that was picked last.
    clock: u64,
    /// Tasks that wait, that are called to run, and that run.
    tasks: BTreeMap<TaskId, Place>,
    /// TASKS-I5: by query, how many of these have a place of a short query.
    short: BTreeMap<QueryId, usize>,
    /// Orders tasks that arrive at the same time.
    arrivals: u64,
}

#[derive(Clone, Debug)]
struct Query {
    used_ns: u64,
    /// At most [`Config::expected_max_ns`].
    expected_ns: u64,
    level: usize,
}

#[derive(Clone, Debug, Default)]
struct Level {
    /// The time that the level has used, divided by its weight.
    used: u64,
    /// By query, in the order of arrival; then by arrival of the task.
    waiting: BTreeMap<(QueryId, u64), TaskId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waits {
        level: usize,
        key: (QueryId, u64),
    },
    /// The task has a worker and has not begun.
    Called {
        query: QueryId,
        is_long: bool,
    },
    Runs {
        query: QueryId,
        is_long: bool,
    },
}

impl Tasks {
    /// A state without queries.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let levels = vec![Level::default(); config.level_ends.len() + 1];
        Self {
            config,
            taken: 0,
            taken_by_long: 0,
            queries: BTreeMap::new(),
            levels,
            clock: 0,
            tasks: BTreeMap::new(),
            short: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// A query begins; ids ascend.
    pub fn begin(&mut self, id: QueryId) {
        let query = Query {
            used_ns: 0,
            expected_ns: 0,
            level: 0,
        };
        self.queries.insert(id, query);
    }

    /// Sets the expected total time of a query, in nanoseconds. Applies to tasks that begin to
    /// wait after this call.
    ///
    /// # Panics
    /// There is no such query.
    pub fn expect(&mut self, id: QueryId, ns: u64) {
        let query = self.queries.get_mut(&id).expect("the query has begun");
        query.expected_ns = ns.min(self.config.expected_max_ns);
        query.level = self.config.level(query);
    }

    /// A query has ended: it has no tasks. Returns the nanoseconds that it has used.
    pub fn end(&mut self, id: QueryId) -> u64 {
        self.queries.remove(&id).map_or(0, |query| query.used_ns)
    }

    /// A task has something to do, or was called to run.
    ///
    /// # Panics
    /// There is no such query.
    pub fn enter(&mut self, id: QueryId, task: TaskId) -> Turn {
        match self.tasks.get(&task) {
            Some(Place::Waits { .. }) => return Turn::Wait,
            Some(&(Place::Called { query, is_long } | Place::Runs { query, is_long })) => {
                // It counts as before.
                self.tasks.insert(task, Place::Runs { query, is_long });
                return Turn::Run;
            }
            None => {}
        }
        let is_long = self.is_long(id);
        if self.is_free(is_long) {
            self.take(is_long);
            self.put(task, Place::Runs { query: id, is_long });
            return Turn::Run;
        }
        self.wait(id, task);
        Turn::Wait
    }

    /// Whether a query is beyond the levels of short queries.
    ///
    /// # Panics
    ///
    /// If the query has not begun.
    #[must_use]
    pub fn is_long(&self, id: QueryId) -> bool {
        self.is_long_level(self.queries[&id].level)
    }

    fn is_long_level(&self, level: usize) -> bool {
        level >= self.config.short_levels
    }

    /// Short queries with tasks that run or wait, in the order of arrival.
    #[must_use]
    pub fn short(&self) -> impl DoubleEndedIterator<Item = QueryId> {
        self.short.keys().copied()
    }

    /// The number of tasks that run, are called to run, or wait.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.tasks.len()
    }

    /// Whether a worker is free for a task.
    fn is_free(&self, is_long: bool) -> bool {
        let cores = self.config.cores.max(1);
        let free = self.taken < self.config.workers.max(cores);
        free && (!is_long || self.taken_by_long < cores)
    }

    fn take(&mut self, is_long: bool) {
        self.taken += 1;
        self.taken_by_long += usize::from(is_long);
    }

    fn give_back(&mut self, is_long: bool) {
        self.taken -= 1;
        self.taken_by_long -= usize::from(is_long);
    }

    fn wait(&mut self, id: QueryId, task: TaskId) {
        self.arrivals += 1;
        let query = self.queries.get(&id).expect("the query has begun");
        let level = &mut self.levels[query.level];
        if level.waiting.is_empty() {
            // A level earns nothing for the time during which none of its tasks waited.
            level.used = level.used.max(self.clock);
        }
        let key = (id, self.arrivals);
        level.waiting.insert(key, task);
        let level = query.level;
        self.put(task, Place::Waits { level, key });
    }

    /// Gives a place to a task that has none.
    fn put(&mut self, task: TaskId, place: Place) {
        if let Some(query) = self.short_of(place) {
            *self.short.entry(query).or_default() += 1;
        }
        self.tasks.insert(task, place);
    }

    fn remove(&mut self, task: TaskId) -> Option<Place> {
        let place = self.tasks.remove(&task)?;
        if let Some(query) = self.short_of(place)
            && let Some(count) = self.short.get_mut(&query)
        {
            *count -= 1;
            if *count == 0 {
                self.short.remove(&query);
            }
        }
        Some(place)
    }

    /// The query of a task, if the task has its place as one of a short query.
    fn short_of(&self, place: Place) -> Option<QueryId> {
        let (query, is_long) = match place {
            Place::Waits { level, key } => (key.0, self.is_long_level(level)),
            Place::Called { query, is_long } | Place::Runs { query, is_long } => (query, is_long),
        };
        (!is_long).then_some(query)
    }

    /// A task has run for `ran_ns` nanoseconds; `again`: it has more to do at once. Returns the
    /// task that should run in its place, which may be the same task.
    ///
    /// # Panics
    /// There is no such query, or the task does not run.
    #[must_use]
    pub fn leave(&mut self, id: QueryId, task: TaskId, ran_ns: u64, again: bool) -> Option<TaskId> {
        let Some(Place::Runs { is_long, .. }) = self.remove(task) else {
            panic!("TASKS-I2: the task does not run");
        };
        self.give_back(is_long);
        let query = self.queries.get_mut(&id).expect("the query has begun");
        query.used_ns += ran_ns;
        // Weights are powers of the ratio; the last level has weight 1.
        let below = self.config.level_ends.len() - query.level;
        let weight = (0..below).fold(1_u64, |weight, _| weight * self.config.ratio.max(1));
        self.levels[query.level].used += ran_ns / weight;
        query.level = self.config.level(query);
        if again {
            self.wait(id, task);
        }
        self.call_next()
    }

    /// A task that waits or was called to run will not run. Returns the task that should run in
    /// its place.
    #[must_use]
    pub fn give_up(&mut self, task: TaskId) -> Option<TaskId> {
        match self.remove(task)? {
            Place::Called { is_long, .. } | Place::Runs { is_long, .. } => {
                self.give_back(is_long);
                self.call_next()
            }
            Place::Waits { level, key } => {
                self.levels[level].waiting.remove(&key);
                None
            }
        }
    }

    /// Gives a free worker to a waiting task.
    fn call_next(&mut self) -> Option<TaskId> {
        let waiting = (0..self.levels.len()).filter(|at| {
            let waits = !self.levels[*at].waiting.is_empty();
            waits && self.is_free(self.is_long_level(*at))
        });
        let at = waiting.min_by_key(|at| self.levels[*at].used)?;
        let level = &mut self.levels[at];
        self.clock = self.clock.max(level.used);
        let ((query, _), task) = level.waiting.pop_first()?;
        self.remove(task);
        let is_long = self.is_long_level(at);
        self.take(is_long);
        self.put(task, Place::Called { query, is_long });
        Some(task)
    }

    /// Checks every invariant. For tests.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        for (at, level) in self.levels.iter().enumerate() {
            let waits = !level.waiting.is_empty();
            assert!(!(waits && self.is_free(self.is_long_level(at))), "TASKS-I1");
        }
        let cores = self.config.cores.max(1);
        assert!(self.taken <= self.config.workers.max(cores), "TASKS-I2");
        assert!(self.taken_by_long <= cores, "TASKS-I2: of long queries");
        let (mut taken, mut long, mut waiting) = (0, 0, 0);
        let mut short = BTreeMap::new();
        for place in self.tasks.values() {
            match place {
                Place::Waits { .. } => waiting += 1,
                Place::Called { is_long, .. } | Place::Runs { is_long, .. } => {
                    taken += 1;
                    long += usize::from(*is_long);
                }
            }
            if let Some(query) = self.short_of(*place) {
                *short.entry(query).or_insert(0) += 1;
            }
        }
        assert_eq!(short, self.short, "TASKS-I5");
        assert_eq!((taken, long), (self.taken, self.taken_by_long), "TASKS-I2");
        let all: usize = self.levels.iter().map(|level| level.waiting.len()).sum();
        assert_eq!(waiting, all, "every waiting task has a place");
    }
}
