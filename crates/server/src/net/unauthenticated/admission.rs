//! Which unauthenticated client may begin its handshake, and which must make room?
//!
//! Any machine can open sockets and send nothing, and a pool of clients opens hundreds at once.
//! Both look alike until they speak, so a client goes through three stages. *Silent*: it has sent
//! nothing, and holds a descriptor but no buffer. *Waiting*: it has sent something, and its bytes
//! are in the kernel. *Handshaking*: it has buffers, and either the server or the client has to
//! send next. A client's time runs only while it is the client's turn: a server that is slow
//! because a thousand other clients have come does not make this client silent. Turns end with
//! messages, not with bytes, so no client keeps a place by sending a byte now and then.
//!
//! Addresses are treated alike: the next client to begin comes from the address with the fewest
//! handshakes, the next to leave from the address with the most unauthenticated clients; among
//! these the oldest is chosen. So a flood from one address costs others at most [`SILENCE`] for
//! each time that it fills all places.
//!
//! STRANGER-I1: at most [`UNAUTHENTICATED_MAX`] unauthenticated clients at a time, and
//! [`HANDSHAKES_MAX`] handshakes.
//! STRANGER-I2: an authenticated client is never disconnected as an unauthenticated one.
//! STRANGER-I3: a client is asked to leave only if its place is needed and its turn has lasted for
//! [`SILENCE`]; a client that waits for the server is never asked.
//! STRANGER-I4: a waiting client begins as soon as a handshake ends. While clients wait, a
//! handshake in which the client's turn lasts for [`SILENCE`] is asked to end if no other
//! handshake makes progress either, and after [`PATIENCE`] in any case: the clients of a pool on a
//! busy machine answer one by one.
//! Not here: clocks, tasks and sockets (`mod.rs`).
//! Bounds: every call looks at each client at most a few times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::Duration;

/// Room for two pools of five hundred clients that connect all at once. A silent client costs a
/// descriptor and a few hundred bytes.
pub(crate) const UNAUTHENTICATED_MAX: usize = 1024;
/// A handshake has buffers of at most some 60 kB. With a client that answers it takes a few
/// milliseconds.
pub(crate) const HANDSHAKES_MAX: usize = 128;
/// A client that wants to speak does so within a few round trips.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);
/// How long a client's turn in a handshake may last while other handshakes go on.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most clients that are asked to leave at a time: each takes a moment to go.
const AT_A_TIME: usize = 16;

/// The unauthenticated clients of a server. All times count from one fixed moment.
#[derive(Debug)]
pub(crate) struct Admission {
    /// STRANGER-I1. The values differ from [`UNAUTHENTICATED_MAX`] and [`HANDSHAKES_MAX`] only in
    /// tests.
    clients_max: usize,
    handshakes_max: usize,
    next: u64,
    /// When a handshake last made progress or ended.
    progress: Duration,
    /// By number, so the oldest come first.
    clients: BTreeMap<u64, Client>,
}

#[derive(Debug)]
struct Client {
    address: IpAddr,
    stage: Stage,
    /// Since when it is the client's turn; `None` while it is the server's.
    silent_since: Option<Duration>,
    /// Whether the client was asked to leave and has sent nothing since.
    asked: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Silent,
    Waiting,
    Handshaking,
}

/// An order to the client with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Begin(u64),
    Leave(u64),
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            clients_max: UNAUTHENTICATED_MAX,
            handshakes_max: HANDSHAKES_MAX,
            next: 0,
            progress: Duration::ZERO,
            clients: BTreeMap::new(),
        }
    }
}

impl Admission {
    pub(crate) fn arrived(&mut self, now: Duration, address: IpAddr) -> u64 {
        let number = self.next;
        self.next += 1;
        let client = Client {
            address,
            stage: Stage::Silent,
            silent_since: Some(now),
            asked: false,
        };
        self.clients.insert(number, client);
        number
    }

    /// The client has sent something: it is the server's turn. Returns whether its handshake has
    /// begun.
    pub(crate) fn spoke(&mut self, now: Duration, number: u64) -> bool {
        let Some(client) = self.clients.get_mut(&number) else {
            return false;
        };
        client.silent_since = None;
        client.asked = false;
        if client.stage == Stage::Silent {
            client.stage = Stage::Waiting;
        }
        let begun = client.stage == Stage::Handshaking;
        if begun {
            self.progress = now;
        }
        begun
    }

    /// The server waits for the next message of this client.
    pub(crate) fn is_awaited(&mut self, now: Duration, number: u64) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.silent_since = Some(now);
        }
    }

    /// The client was authenticated, or has gone.
    pub(crate) fn left(&mut self, now: Duration, number: u64) {
        let left = self.clients.remove(&number);
        if left.is_some_and(|client| client.stage == Stage::Handshaking) {
            self.progress = now;
        }
    }

    /// Whether another client may come. `short` says that other parts of the server need
    /// descriptors.
    pub(crate) fn is_open(&self, short: bool) -> bool {
        let most = if short { 1 } else { self.clients_max };
        self.clients.len() < most
    }

    /// The next action, if there is one.
    pub(crate) fn poll_action(&mut self, now: Duration, short: bool) -> Option<Action> {
        if let Some(number) = self.next_to_begin() {
            self.clients.get_mut(&number)?.stage = Stage::Handshaking;
            return Some(Action::Begin(number));
        }
        let mut of_address: HashMap<IpAddr, usize> = HashMap::new();
        for client in self.clients.values() {
            *of_address.entry(client.address).or_default() += 1;
        }
        let silent = self.candidates(short).filter(|(until, ..)| *until <= now);
        let rank = |(_, number, client): &(Duration, u64, &Client)| {
            (Reverse(of_address[&client.address]), *number)
        };
        let (_, number, _) = silent.min_by_key(rank)?;
        self.clients.get_mut(&number)?.asked = true;
        Some(Action::Leave(number))
    }

    /// When `poll_action` will have a new action, if no other call comes first.
    pub(crate) fn poll_timeout(&self, short: bool) -> Option<Duration> {
        self.candidates(short).map(|(until, ..)| until).min()
    }

    fn next_to_begin(&self) -> Option<u64> {
        let mut handshakes: HashMap<IpAddr, usize> = HashMap::new();
        for client in self.at(Stage::Handshaking) {
            *handshakes.entry(client.address).or_default() += 1;
        }
        if handshakes.values().sum::<usize>() >= self.handshakes_max {
            return None;
        }
        let waiting = self.clients.iter();
        let waiting = waiting.filter(|(_, client)| client.stage == Stage::Waiting);
        let rank = |(number, client): &(&u64, &Client)| {
            (handshakes.get(&client.address).copied(), **number)
        };
        waiting.min_by_key(rank).map(|(number, _)| *number)
    }

    /// The clients whose places are needed (any place for a new client, a handshake for each
    /// waiting one), and until when they may be silent.
    fn candidates(&self, short: bool) -> impl Iterator<Item = (Duration, u64, &Client)> {
        let asked = || self.clients.values().filter(|client| client.asked);
        let any = !self.is_open(short) && asked().count() < AT_A_TIME;
        let making_way = asked()
            .filter(|client| client.stage == Stage::Handshaking)
            .count();
        let handshake = self.at(Stage::Waiting).count() > making_way;
        let is_needed =
            move |client: &Client| any || handshake && client.stage == Stage::Handshaking;
        let clients = self.clients.iter().filter(|(_, client)| !client.asked);
        let clients = clients.filter(move |(_, client)| is_needed(client));
        clients.filter_map(|(number, client)| Some((self.patient_until(client)?, *number, client)))
    }

    fn patient_until(&self, client: &Client) -> Option<Duration> {
        let since = client.silent_since?;
        Some(match client.stage {
            Stage::Handshaking => (since.max(self.progress) + SILENCE).min(since + PATIENCE),
            Stage::Silent | Stage::Waiting => since + SILENCE,
        })
    }

    fn at(&self, stage: Stage) -> impl Iterator<Item = &Client> {
        self.clients
            .values()
            .filter(move |client| client.stage == stage)
    }
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers are small"
)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn actions(admission: &mut Admission, now: Duration) -> Vec<Action> {
        std::iter::from_fn(|| admission.poll_action(now, false)).collect()
    }

    #[test]
    fn five_hundred_speaking_clients_are_all_served_and_none_leaves() {
        let mut admission = Admission::default();
        let numbers: Vec<u64> = (0..500)
            .map(|_| admission.arrived(MS, address(1)))
            .collect();
        for number in &numbers {
            admission.spoke(MS, *number);
        }
        let mut begun = Vec::new();
        // The server takes longer than a silent client may.
        for round in 1..=4_u32 {
            for action in actions(&mut admission, 3 * SILENCE * round) {
                let Action::Begin(number) = action else {
                    panic!("STRANGER-I3: {action:?}");
                };
                begun.push(number);
            }
            let done = &begun[HANDSHAKES_MAX * (round as usize - 1)..];
            for number in done {
                admission.left(3 * SILENCE * round, *number);
            }
        }
        assert_eq!(begun, numbers);
    }

    #[test]
    fn only_silent_clients_make_room_and_only_if_it_is_needed() {
        let mut admission = Admission::default();
        let first = admission.arrived(Duration::ZERO, address(1));
        for _ in 1..UNAUTHENTICATED_MAX {
            assert!(admission.is_open(false));
            assert_eq!(actions(&mut admission, 5000 * MS), []);
            admission.arrived(5000 * MS, address(1));
        }
        admission.spoke(5000 * MS, first);
        assert!(!admission.is_open(false));
        assert_eq!(actions(&mut admission, 5500 * MS), [Action::Begin(first)]);
        assert_eq!(admission.poll_timeout(false), Some(6000 * MS));
        assert_eq!(actions(&mut admission, 5999 * MS), []);
        let asked = (1..=AT_A_TIME as u64).map(|n| Action::Leave(first + n));
        assert_eq!(
            actions(&mut admission, 6000 * MS),
            asked.collect::<Vec<_>>()
        );
        assert_eq!(
            actions(&mut admission, 6000 * MS),
            [],
            "that is enough for now"
        );
        // One of them speaks just then, and stays: another goes.
        assert!(
            !admission.spoke(6000 * MS, first + 1),
            "it begins only when it is told to"
        );
        let next = [
            Action::Begin(first + 1),
            Action::Leave(first + 1 + AT_A_TIME as u64),
        ];
        assert_eq!(actions(&mut admission, 6000 * MS), next);
        assert!(admission.spoke(6000 * MS, first + 1));
        admission.left(6000 * MS, first + 2);
        assert!(admission.is_open(false));
        assert_eq!(admission.poll_timeout(false), None);
    }

    #[test]
    fn a_flood_from_one_address_makes_room_for_others() {
        let mut admission = Admission::default();
        let few = admission.arrived(Duration::ZERO, address(2));
        for _ in 1..UNAUTHENTICATED_MAX {
            admission.arrived(MS, address(1));
        }
        assert!(!actions(&mut admission, 2000 * MS).contains(&Action::Leave(few)));

        let mut admission = Admission::default();
        let many = 2 * HANDSHAKES_MAX as u64;
        for number in 0..many {
            admission.arrived(Duration::ZERO, address(1));
            admission.spoke(Duration::ZERO, number);
        }
        assert_eq!(actions(&mut admission, MS).len(), HANDSHAKES_MAX);
        let other = admission.arrived(MS, address(2));
        admission.spoke(MS, other);
        assert_eq!(actions(&mut admission, 2 * MS), []);
        admission.left(2 * MS, 0);
        assert_eq!(actions(&mut admission, 2 * MS), [Action::Begin(other)]);
    }

    #[test]
    fn a_handshake_with_a_silent_client_ends_if_others_wait() {
        let mut admission = Admission {
            handshakes_max: 1,
            ..Admission::default()
        };
        let (first, second) = (
            admission.arrived(MS, address(1)),
            admission.arrived(MS, address(1)),
        );
        admission.spoke(MS, first);
        assert_eq!(actions(&mut admission, MS), [Action::Begin(first)]);
        admission.is_awaited(100 * MS, first);
        assert_eq!(actions(&mut admission, 5000 * MS), [], "no client waits");
        admission.spoke(5000 * MS, second);
        assert_eq!(actions(&mut admission, 5000 * MS), [Action::Leave(first)]);
        admission.spoke(5000 * MS, first);
        assert_eq!(actions(&mut admission, 9000 * MS), [], "the server's turn");
        admission.is_awaited(9000 * MS, first);
        assert_eq!(admission.poll_timeout(false), Some(10_000 * MS));
        assert_eq!(actions(&mut admission, 10_000 * MS), [Action::Leave(first)]);
        admission.left(10_000 * MS, first);
        assert_eq!(
            actions(&mut admission, 10_000 * MS),
            [Action::Begin(second)]
        );
    }

    #[test]
    fn a_handshake_may_be_slow_while_others_progress_but_not_for_long() {
        let mut admission = Admission {
            handshakes_max: 2,
            ..Admission::default()
        };
        let [slow, quick, _] = [(); 3].map(|()| {
            let number = admission.arrived(Duration::ZERO, address(1));
            admission.spoke(Duration::ZERO, number);
            number
        });
        let begun = [Action::Begin(slow), Action::Begin(quick)];
        assert_eq!(actions(&mut admission, Duration::ZERO), begun);
        admission.is_awaited(Duration::ZERO, slow);
        for second in 1..5 {
            assert_eq!(actions(&mut admission, (1000 * second - 2) * MS), []);
            admission.spoke((1000 * second - 1) * MS, quick);
        }
        assert_eq!(admission.poll_timeout(false), Some(4999 * MS));
        admission.spoke(4998 * MS, quick);
        assert_eq!(admission.poll_timeout(false), Some(PATIENCE));
        assert_eq!(actions(&mut admission, PATIENCE), [Action::Leave(slow)]);
    }

    #[test]
    fn silent_clients_give_up_descriptors_that_are_needed_elsewhere() {
        let mut admission = Admission::default();
        assert!(admission.is_open(true), "one client must learn why");
        let silent = admission.arrived(Duration::ZERO, address(1));
        assert!(!admission.is_open(true));
        assert_eq!(admission.poll_action(999 * MS, true), None);
        assert_eq!(admission.poll_timeout(true), Some(SILENCE));
        let asked = admission.poll_action(SILENCE, true);
        assert_eq!(asked, Some(Action::Leave(silent)));
    }

    /// Clients arrive, speak, fall silent and go at random. A client that is asked to leave does,
    /// or speaks at the last moment.
    #[test]
    fn random_crowds_keep_the_invariants() {
        for seed in 0..100_u64 {
            let mut state = seed;
            let mut random = move |below: u64| {
                let next = state.wrapping_mul(6_364_136_223_846_793_005);
                state = next.wrapping_add(1);
                (state >> 33) % below
            };
            let mut admission = Admission {
                clients_max: 60,
                handshakes_max: 8,
                ..Admission::default()
            };
            // For each client, since when it is its turn.
            let mut here = BTreeMap::<u64, Option<Duration>>::new();
            let (mut waiting, mut shaking) = (BTreeSet::new(), BTreeSet::new());
            let (mut now, keen) = (Duration::ZERO, 1 + random(40));
            for _ in 0..1000 {
                now += MS * u32::try_from(random(30)).unwrap();
                let short = random(50) == 0;
                if admission.is_open(short) && random(40) < keen {
                    let number = admission.arrived(now, address(random(4) as u8));
                    here.insert(number, Some(now));
                }
                let pick = random(1 + here.len() as u64) as usize;
                if let Some(number) = here.keys().nth(pick).copied() {
                    match (random(3), here[&number]) {
                        (0, _) => {
                            admission.left(now, number);
                            here.remove(&number);
                            waiting.remove(&number);
                            shaking.remove(&number);
                        }
                        (_, Some(_)) => {
                            let begun = admission.spoke(now, number);
                            assert_eq!(begun, shaking.contains(&number), "seed {seed}");
                            here.insert(number, None);
                            if !begun {
                                waiting.insert(number);
                            }
                        }
                        (_, None) if shaking.contains(&number) => {
                            admission.is_awaited(now, number);
                            here.insert(number, Some(now));
                        }
                        _ => {}
                    }
                }
                while let Some(action) = admission.poll_action(now, short) {
                    match action {
                        Action::Begin(number) => {
                            assert!(waiting.remove(&number), "seed {seed}: it has spoken");
                            shaking.insert(number);
                        }
                        Action::Leave(number) => {
                            let since = here[&number].unwrap();
                            assert!(since + SILENCE <= now, "STRANGER-I3: seed {seed}");
                            let is_needed = short
                                || here.len() == admission.clients_max
                                || shaking.contains(&number) && !waiting.is_empty();
                            assert!(is_needed, "STRANGER-I3: seed {seed}");
                            if random(4) == 0 {
                                if !admission.spoke(now, number) {
                                    waiting.insert(number);
                                }
                                here.insert(number, None);
                            } else {
                                admission.left(now, number);
                                here.remove(&number);
                                shaking.remove(&number);
                            }
                        }
                    }
                }
                assert!(here.len() <= admission.clients_max, "STRANGER-I1: {seed}");
                assert!(
                    shaking.len() <= admission.handshakes_max,
                    "STRANGER-I1: {seed}"
                );
                let idle = waiting.is_empty() || shaking.len() == admission.handshakes_max;
                assert!(idle, "STRANGER-I4: seed {seed}");
                if !waiting.is_empty() {
                    let since = shaking.iter().filter_map(|number| here[number]).min();
                    let late = since.is_some_and(|since| since + PATIENCE <= now);
                    assert!(!late, "STRANGER-I4: seed {seed}");
                }
            }
        }
    }
}
