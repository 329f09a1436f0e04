//! Decides which part of a match belongs to which part of a regular expression.
//!
//! `PostgreSQL`'s engine prefers the longest (or shortest) match as a whole, then divides it from
//! left to right. In a branch, the parts before the next one that captures, refers back, or
//! prefers another length form one part (`parseqatom` in its `regcomp.c`). The tree is built in
//! the same way, so that the division is the same.

use super::class::Class;
use super::parse::{Assert, Ast};

/// The length of match that a part prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefer {
    None,
    Longer,
    Shorter,
}

impl Prefer {
    fn or(self, other: Self) -> Self {
        if self == Self::None { other } else { self }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: Kind,
    pub(super) prefer: Prefer,
    /// Whether its match must be divided among its children, because it contains a group or a back
    /// reference.
    pub(super) divided: bool,
    /// Whether it contains a back reference.
    pub(super) refers: bool,
    /// Whether it contains parts with different preferences.
    mixed: bool,
}

pub(super) type Id = usize;

#[derive(Debug)]
pub(super) enum Kind {
    Empty,
    Set(Class),
    Assert(Assert),
    Look {
        inner: Id,
        ahead: bool,
        negative: bool,
    },
    /// A back reference to the group with this number.
    Back(usize),
    Group(Id, usize),
    Repeat(Id, u32, Option<u32>),
    Cat(Id, Id),
    Alt(Vec<Id>),
}

/// The nodes of an expression; the root is the last one.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// The node inside each group.
    pub(super) groups: Vec<Id>,
}

impl Tree {
    pub(super) fn new(ast: &Ast, groups: usize) -> Self {
        let mut tree = Self {
            nodes: vec![],
            groups: vec![0; groups + 1],
        };
        let root = tree.build(ast);
        tree.groups[0] = root;
        tree
    }

    pub(super) fn root(&self) -> Id {
        self.groups[0]
    }

    fn add(&mut self, kind: Kind, prefer: Prefer, parts: &[Id]) -> Id {
        let divided = parts.iter().any(|part| self.nodes[*part].divided);
        let refers = parts.iter().any(|part| self.nodes[*part].refers);
        let mut preferences = parts
            .iter()
            .map(|part| self.nodes[*part].prefer)
            .chain([prefer]);
        let longer = preferences.clone().any(|found| found == Prefer::Longer);
        let shorter = preferences.any(|found| found == Prefer::Shorter);
        let mixed = parts.iter().any(|part| self.nodes[*part].mixed) || (longer && shorter);
        self.nodes.push(Node {
            divided: divided || matches!(kind, Kind::Group(..) | Kind::Back(_)),
            refers: refers || matches!(kind, Kind::Back(_)),
            mixed,
            kind,
            prefer,
        });
        self.nodes.len() - 1
    }

    fn build(&mut self, ast: &Ast) -> Id {
        match ast {
            Ast::Empty => self.add(Kind::Empty, Prefer::None, &[]),
            Ast::Set(class) => self.add(Kind::Set(class.clone()), Prefer::None, &[]),
            Ast::Assert(assert) => self.add(Kind::Assert(*assert), Prefer::None, &[]),
            Ast::Look {
                inner,
                ahead,
                negative,
            } => {
                let inner = self.build(inner);
                let (ahead, negative) = (*ahead, *negative);
                let look = Kind::Look {
                    inner,
                    ahead,
                    negative,
                };
                self.add(look, Prefer::None, &[])
            }
            Ast::Back(number) => self.add(Kind::Back(*number), Prefer::None, &[]),
            Ast::Group(inner, number) => {
                let inner = self.build(inner);
                match number {
                    None => inner,
                    Some(number) => {
                        self.groups[*number] = inner;
                        let prefer = self.nodes[inner].prefer;
                        self.add(Kind::Group(inner, *number), prefer, &[inner])
                    }
                }
            }
            Ast::Alt(branches) => {
                let branches: Vec<Id> = branches.iter().map(|branch| self.build(branch)).collect();
                self.add(Kind::Alt(branches.clone()), Prefer::Longer, &branches)
            }
            Ast::Repeat { .. } => self.branch(std::slice::from_ref(ast)),
            Ast::Cat(items) => self.branch(items),
        }
    }

    /// A branch: its leading plain parts as one node, the first other part, and the rest.
    fn branch(&mut self, items: &[Ast]) -> Id {
        let mut plain: Option<Id> = None;
        for (at, item) in items.iter().enumerate() {
            let (atom, min, max, own) = match item {
                Ast::Repeat {
                    inner,
                    min,
                    max,
                    greedy,
                } => {
                    let own = match greedy {
                        None => Prefer::None,
                        Some(true) => Prefer::Longer,
                        Some(false) => Prefer::Shorter,
                    };
                    (self.build(inner), *min, *max, own)
                }
                other => (self.build(other), 1, Some(1), Prefer::None),
            };
            let prefer = own.or(self.nodes[atom].prefer);
            let before = plain.map_or(Prefer::None, |plain| self.nodes[plain].prefer);
            let clash = |left: Prefer, right: Prefer| {
                left != Prefer::None && right != Prefer::None && left != right
            };
            let inner = &self.nodes[atom];
            let messy = inner.divided
                || inner.mixed
                || clash(own, inner.prefer)
                || clash(before, own)
                || clash(before, inner.prefer);
            let once = min == 1 && max == Some(1);
            if !messy {
                let part = if once {
                    atom
                } else {
                    self.add(Kind::Repeat(atom, min, max), prefer, &[])
                };
                plain = Some(match plain {
                    None => part,
                    Some(plain) => self.add(Kind::Cat(plain, part), before.or(prefer), &[]),
                });
                continue;
            }
            let part = self.repeated(atom, min, max, own);
            let part_prefers = self.nodes[part].prefer;
            let rest = &items[at + 1..];
            let mut whole = part;
            if !rest.is_empty() {
                let rest = self.branch(rest);
                let prefer = part_prefers.or(self.nodes[rest].prefer);
                whole = self.add(Kind::Cat(part, rest), prefer, &[part, rest]);
                self.nodes[whole].divided = true;
            }
            if let Some(plain) = plain {
                let prefer = before.or(self.nodes[whole].prefer);
                whole = self.add(Kind::Cat(plain, whole), prefer, &[plain, whole]);
                self.nodes[whole].divided = true;
            }
            return whole;
        }
        match plain {
            Some(plain) => plain,
            None => self.add(Kind::Empty, Prefer::None, &[]),
        }
    }

    fn repeated(&mut self, atom: Id, min: u32, max: Option<u32>, own: Prefer) -> Id {
        let inner = self.nodes[atom].prefer;
        let prefer = own.or(inner);
        if min == 1 && max == Some(1) && (own == Prefer::None || own == inner) {
            return atom;
        }
        if max == Some(0) {
            return self.add(Kind::Empty, Prefer::None, &[]);
        }
        if min == 1 && max == Some(1) {
            return self.add(Kind::Repeat(atom, 1, Some(1)), prefer, &[atom]);
        }
        if !self.nodes[atom].divided {
            return self.add(Kind::Repeat(atom, min, max), prefer, &[]);
        }
        if min > 0 && !self.nodes[atom].refers {
            // Only the captures of the last iteration count.
            let before = Kind::Repeat(atom, min - 1, max.map(|max| max - 1));
            let before = self.add(before, prefer, &[]);
            return self.add(Kind::Cat(before, atom), prefer, &[before, atom]);
        }
        self.add(Kind::Repeat(atom, min, max), prefer, &[atom])
    }
}
