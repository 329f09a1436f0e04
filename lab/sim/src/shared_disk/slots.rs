//! Values in numbered slots; numbers are reused.
//!
//! R3: a slot is in use or free, and is freed once.

/// Values in numbered slots.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, thing: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.slots[at as usize] = Some(thing);
            return at;
        }
        self.slots.push(Some(thing));
        u32::try_from(self.slots.len() - 1).expect("R3: slots are fewer than 2^32")
    }

    pub(crate) fn take(&mut self, at: u32) -> T {
        let thing = self.slots[at as usize].take();
        self.free.push(at);
        thing.expect("R3: a slot is freed once")
    }

    pub(crate) fn of(&mut self, at: u32) -> &mut T {
        let thing = self.slots[at as usize].as_mut();
        thing.expect("R3: events are about what is there")
    }

    pub(crate) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0_u32..).zip(&self.slots);
        numbered.filter_map(|(at, thing)| thing.as_ref().map(|thing| (at, thing)))
    }
}
