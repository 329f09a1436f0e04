//! Matches a [`Tree`] against a text: computes all ends of each part, then chooses the preferred
//! division of the match.
//!
//! Bounds: the ends of a part from each start are computed once per text (memory: parts ×
//! positions).

use std::collections::HashMap;
use std::rc::Rc;

use super::parse::Assert;
use super::tree::{Id, Kind, Prefer, Tree};

/// The ranges of a match and its groups, in characters.
pub(super) type Groups = Vec<Option<(usize, usize)>>;

pub(super) struct Matcher<'a> {
    tree: &'a Tree,
    text: &'a [char],
    ends: HashMap<(Id, usize), Rc<Vec<usize>>>,
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

impl<'a> Matcher<'a> {
    pub(super) fn new(tree: &'a Tree, text: &'a [char]) -> Self {
        Self {
            tree,
            text,
            ends: HashMap::new(),
        }
    }

    /// The first match that starts at `from` or later.
    pub(super) fn find(&mut self, from: usize) -> Option<Groups> {
        (from..=self.text.len()).find_map(|start| self.find_at(start))
    }

    /// The match that starts at `start`.
    pub(super) fn find_at(&mut self, start: usize) -> Option<Groups> {
        let root = self.tree.root();
        let ends = self.ends(root, start);
        let node = &self.tree.nodes[root];
        for end in preferred(&ends, node.prefer) {
            let mut groups: Groups = vec![None; self.tree.groups.len()];
            if self.divide(root, start, end, &mut groups) {
                groups[0] = Some((start, end));
                return Some(groups);
            }
        }
        None
    }

    /// The ends, sorted, of all matches of a part from `start`. A back reference counts as
    /// everything that its group may match.
    fn ends(&mut self, part: Id, start: usize) -> Rc<Vec<usize>> {
        if let Some(found) = self.ends.get(&(part, start)) {
            return Rc::clone(found);
        }
        let tree = self.tree;
        let found = match &tree.nodes[part].kind {
            Kind::Empty => vec![start],
            Kind::Set(class) => match self.text.get(start) {
                Some(letter) if class.has(*letter) => vec![start + 1],
                _ => vec![],
            },
            Kind::Assert(assert) => {
                if self.holds(*assert, start) {
                    vec![start]
                } else {
                    vec![]
                }
            }
            Kind::Look {
                inner,
                ahead,
                negative,
            } => {
                let found = if *ahead {
                    !self.ends(*inner, start).is_empty()
                } else {
                    (0..=start).any(|before| self.ends(*inner, before).contains(&start))
                };
                if found == *negative {
                    vec![]
                } else {
                    vec![start]
                }
            }
            Kind::Back(number) => self.ends(tree.groups[*number], start).to_vec(),
            Kind::Group(inner, _) => self.ends(*inner, start).to_vec(),
            Kind::Alt(branches) => {
                let ends = branches
                    .iter()
                    .flat_map(|branch| self.ends(*branch, start).to_vec());
                sorted(ends.collect())
            }
            Kind::Cat(left, right) => {
                let middles = self.ends(*left, start);
                let mut ends = vec![];
                for middle in middles.iter() {
                    ends.extend_from_slice(&self.ends(*right, *middle));
                }
                sorted(ends)
            }
            Kind::Repeat(inner, min, max) => self.repeated(*inner, *min, *max, start),
        };
        let found = Rc::new(found);
        self.ends.insert((part, start), Rc::clone(&found));
        found
    }

    fn repeated(&mut self, inner: Id, min: u32, max: Option<u32>, start: usize) -> Vec<usize> {
        let mut reached = vec![start];
        for _ in 0..min {
            let mut next = vec![];
            for place in &reached {
                next.extend_from_slice(&self.ends(inner, *place));
            }
            reached = sorted(next);
        }
        let mut seen = vec![false; self.text.len() + 1];
        for place in &reached {
            seen[*place] = true;
        }
        let mut all = reached.clone();
        let mut rounds = max.map(|max| max - min);
        while !reached.is_empty() && rounds != Some(0) {
            let mut next = vec![];
            for place in &reached {
                for end in self.ends(inner, *place).iter() {
                    if !std::mem::replace(&mut seen[*end], true) {
                        next.push(*end);
                    }
                }
            }
            all.extend_from_slice(&next);
            reached = next;
            rounds = rounds.map(|rounds| rounds - 1);
        }
        sorted(all)
    }

    fn holds(&self, assert: Assert, at: usize) -> bool {
        let before = at.checked_sub(1).map(|before| self.text[before]);
        let after = self.text.get(at).copied();
        let (was, is) = (before.is_some_and(is_word), after.is_some_and(is_word));
        match assert {
            Assert::TextStart => before.is_none(),
            Assert::TextEnd => after.is_none(),
            Assert::LineStart => before.is_none_or(|before| before == '\n'),
            Assert::LineEnd => after.is_none_or(|after| after == '\n'),
            Assert::WordStart => !was && is,
            Assert::WordEnd => was && !is,
            Assert::Boundary => was != is,
            Assert::NotBoundary => was == is,
        }
    }

    /// Divides a match of the part among its children.
    fn divide(&mut self, part: Id, start: usize, end: usize, groups: &mut Groups) -> bool {
        let tree = self.tree;
        let node = &tree.nodes[part];
        if !node.divided {
            return true;
        }
        match &node.kind {
            Kind::Group(inner, number) => {
                if !self.divide(*inner, start, end, groups) {
                    return false;
                }
                groups[*number] = Some((start, end));
                true
            }
            Kind::Back(number) => {
                let Some((from, to)) = groups[*number] else {
                    return false;
                };
                self.text[from..to] == self.text[start..end]
            }
            Kind::Alt(branches) => {
                for branch in branches {
                    if self.ends(*branch, start).binary_search(&end).is_ok() {
                        let mut tried = groups.clone();
                        if self.divide(*branch, start, end, &mut tried) {
                            *groups = tried;
                            return true;
                        }
                    }
                }
                false
            }
            Kind::Cat(left, right) => {
                let middles = self.ends(*left, start);
                for middle in preferred(&middles, tree.nodes[*left].prefer) {
                    if middle > end || self.ends(*right, middle).binary_search(&end).is_err() {
                        continue;
                    }
                    let mut tried = groups.clone();
                    if self.divide(*left, start, middle, &mut tried)
                        && self.divide(*right, middle, end, &mut tried)
                    {
                        *groups = tried;
                        return true;
                    }
                }
                false
            }
            Kind::Repeat(inner, min, max) => {
                if start == end && *min == 0 {
                    // One empty iteration if the part can be empty, otherwise none.
                    let mut tried = groups.clone();
                    if self.ends(*inner, start).contains(&start)
                        && self.divide(*inner, start, start, &mut tried)
                    {
                        *groups = tried;
                    }
                    return true;
                }
                self.iterate(*inner, (*min).max(1), *max, (start, end), groups)
            }
            _ => true,
        }
    }

    /// Divides a match among iterations of a part. Iterations beyond the minimum are not empty.
    fn iterate(
        &mut self,
        inner: Id,
        min: u32,
        max: Option<u32>,
        (start, end): (usize, usize),
        groups: &mut Groups,
    ) -> bool {
        if start == end && min == 0 {
            return true;
        }
        if max == Some(0) {
            return false;
        }
        let ends = self.ends(inner, start);
        for middle in preferred(&ends, self.tree.nodes[inner].prefer) {
            if middle > end || (middle == start && min == 0) {
                continue;
            }
            let mut tried = groups.clone();
            let rest = (middle, end);
            let less = max.map(|max| max - 1);
            if self.divide(inner, start, middle, &mut tried)
                && self.iterate(inner, min.saturating_sub(1), less, rest, &mut tried)
            {
                *groups = tried;
                return true;
            }
        }
        false
    }
}

fn sorted(mut places: Vec<usize>) -> Vec<usize> {
    places.sort_unstable();
    places.dedup();
    places
}

/// The ends in the order in which they are tried.
fn preferred(ends: &Rc<Vec<usize>>, prefer: Prefer) -> Vec<usize> {
    let mut ends = ends.to_vec();
    if prefer != Prefer::Shorter {
        ends.reverse();
    }
    ends
}
