//! How are the single pages that smooth scans request combined with chunk loads?
//!
//! A page whose chunk is resident is served from it. A page whose chunk is loading waits for the
//! load. Other requests queue and raise the load relevance of their chunk.
//! Not here: reading pages (the driver).
//! Source: [CoopScans07 §7.1].

use std::collections::BTreeMap;

use crate::abm::Abm;
use crate::table::Pinner;
use crate::{Action, ChunkId, ColumnSet, EventError, PageRequestId, TableId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageState {
    /// The request counts in `pages(c)`; the driver may read the page alone.
    Queued,
    /// A load will bring the page.
    AwaitsLoad,
    /// The page is resident, its columns pinned.
    Served,
}

#[derive(Debug)]
struct PageRequest {
    table: TableId,
    chunk: ChunkId,
    columns: ColumnSet,
    state: PageState,
}

/// All open page requests.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    requests: BTreeMap<PageRequestId, PageRequest>,
    last: Option<PageRequestId>,
}

impl Pages {
    pub(crate) fn validate_new(&self, id: PageRequestId) -> Result<(), EventError> {
        if self.last.is_some_and(|last| id <= last) {
            return Err(EventError::PageRequestIdReused(id));
        }
        Ok(())
    }

    /// Whether a request for the table is queued, awaits a load or is served.
    pub(crate) fn any_of(&self, table: TableId) -> bool {
        self.requests.values().any(|request| request.table == table)
    }

    fn of_chunk(
        &self,
        table: TableId,
        chunk: ChunkId,
        state: PageState,
    ) -> impl Iterator<Item = (PageRequestId, &PageRequest)> {
        let requests = self.requests.iter().map(|(&id, request)| (id, request));
        requests.filter(move |(_, r)| (r.table, r.chunk, r.state) == (table, chunk, state))
    }
}

impl Abm {
    pub(crate) fn request_page(
        &mut self,
        id: PageRequestId,
        table: TableId,
        chunk: ChunkId,
        columns: ColumnSet,
    ) {
        let seq = self.state.next_seq();
        self.pages.last = Some(id);
        let entry = self.state.table_mut(table);
        let group = entry.group(chunk);
        let state = if columns.is_subset(&group.state.resident) {
            entry.pin(chunk, Pinner::Page(id), columns.clone());
            entry.touch(chunk, &columns, seq);
            self.actions.push_back(Action::ServePage { request: id });
            PageState::Served
        } else if columns.is_subset(&group.coming) {
            self.actions
                .push_back(Action::DropPageRequest { request: id });
            PageState::AwaitsLoad
        } else {
            entry.set_state(chunk, |state| state.pages += 1);
            PageState::Queued
        };
        self.pages.requests.insert(
            id,
            PageRequest {
                table,
                chunk,
                columns,
                state,
            },
        );
    }

    pub(crate) fn complete_page(&mut self, id: PageRequestId) {
        if self
            .pages
            .requests
            .get(&id)
            .is_some_and(|r| r.state == PageState::Queued)
            && let Some(request) = self.pages.requests.remove(&id)
        {
            self.state
                .table_mut(request.table)
                .set_state(request.chunk, |state| state.pages -= 1);
        }
    }

    pub(crate) fn release_page(&mut self, id: PageRequestId) {
        let seq = self.state.next_seq();
        if self
            .pages
            .requests
            .get(&id)
            .is_some_and(|r| r.state == PageState::Served)
            && let Some(request) = self.pages.requests.remove(&id)
        {
            let table = self.state.table_mut(request.table);
            let columns = table.unpin(request.chunk, Pinner::Page(id));
            table.touch(request.chunk, &columns, seq);
        }
    }

    /// A load started: the driver need not read the queued pages that the load covers.
    pub(crate) fn drop_page_requests(&mut self, table: TableId, chunk: ChunkId) {
        let coming = self.state.table(table).group(chunk).coming.clone();
        let covered: Vec<PageRequestId> = self
            .pages
            .of_chunk(table, chunk, PageState::Queued)
            .filter(|(_, request)| request.columns.is_subset(&coming))
            .map(|(id, _)| id)
            .collect();
        for id in covered {
            self.set_page_state(id, PageState::AwaitsLoad);
            self.state
                .table_mut(table)
                .set_state(chunk, |state| state.pages -= 1);
            self.actions
                .push_back(Action::DropPageRequest { request: id });
        }
    }

    /// Columns arrived: requests that waited for them are served.
    pub(crate) fn serve_pages(&mut self, table: TableId, chunk: ChunkId) {
        let resident = self.state.table(table).group(chunk).state.resident.clone();
        let covered: Vec<(PageRequestId, ColumnSet)> = self
            .pages
            .of_chunk(table, chunk, PageState::AwaitsLoad)
            .filter(|(_, request)| request.columns.is_subset(&resident))
            .map(|(id, request)| (id, request.columns.clone()))
            .collect();
        for (id, columns) in covered {
            self.set_page_state(id, PageState::Served);
            self.state
                .table_mut(table)
                .pin(chunk, Pinner::Page(id), columns);
            self.actions.push_back(Action::ServePage { request: id });
        }
    }

    /// Columns will not arrive: requests that waited for them fail.
    pub(crate) fn fail_pages(&mut self, table: TableId, chunk: ChunkId, columns: &ColumnSet) {
        let failed: Vec<PageRequestId> = self
            .pages
            .of_chunk(table, chunk, PageState::AwaitsLoad)
            .filter(|(_, request)| request.columns.intersects(columns))
            .map(|(id, _)| id)
            .collect();
        for id in failed {
            self.pages.requests.remove(&id);
            self.actions.push_back(Action::FailPage { request: id });
        }
    }

    fn set_page_state(&mut self, id: PageRequestId, state: PageState) {
        if let Some(request) = self.pages.requests.get_mut(&id) {
            request.state = state;
        }
    }
}
