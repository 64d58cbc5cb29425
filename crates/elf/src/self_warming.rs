//! Cuts the text of a plan at a window boundary, so that loaders ask for huge folios themselves.
//!
//! Such loaders ask only for a PT_LOAD whose address and offset are multiples of the leaf (glibc
//! 2.44 with glibc.elf.thp, `_dl_segment_thp_eligible()`). Ordinary text begins elsewhere. So a second PT_LOAD repeats the
//! windows of the text that nothing reads early. Addresses and bytes stay, and so do all sections. The kernel
//! joins the mappings again (`vma_merge_new_range()`, mm/vma.c). The second PT_LOAD holds no section wholly: GNU strip would
//! place that twice, and leave zeros in one place.
//!
//! Where holes of the file must keep a long readahead away from the windows, the text is cut in two instead. Its sections
//! are then cut at the same address. None is divided that tools read as a whole, such as a string table.

use std::iter;

use hugetext_leaf::{EarlyRead, Span};

use crate::admit::admit;
use crate::cut::{Form, cut};
use crate::cut_sections::with_sections_cut;
use crate::decide::{Data, layout_with_data_joined};
use crate::distance::apart;
use crate::early::early_reads;
use crate::headers::{ProgramHeader, Table};
use crate::image::Image;
use crate::loaded_sections::LoadedSections;
use crate::options::Options;
use crate::plan::{Plan, PlanError};
use crate::refusal::Refusal;
use crate::repeats::has_repeats;
use crate::room::Room;
use crate::source::ReadAt;
use crate::windows::cuts;

/// The plan with the text cut where that makes loaders ask for more of its windows. It is `plan`
/// itself if no cut does. `plan` was made for `image` by `options`; `image` was read from `source`. Where it can, what is
/// cut is kept clear of a `readahead` of this many bytes; 0 needs nothing.
pub fn self_warming(
    source: &(impl ReadAt + ?Sized),
    image: &Image,
    plan: Plan,
    options: &Options,
    readahead: u64,
) -> Result<Plan, PlanError> {
    let sections = LoadedSections::of(image)?;
    let ranges = |plan: &Plan, form| cuts(plan, form, &sections, options.page);
    let may_be = |form: &Form| match form {
        Form::InTwo => readahead > 0,
        Form::Repeated => !plan.repeats_text(),
    };
    let forms = [Form::InTwo, Form::Repeated].into_iter();
    let forms = forms.filter(|form| may_be(form) && !ranges(&plan, *form).is_empty());
    let forms: Vec<Form> = forms.collect();
    if forms.is_empty() {
        return Ok(plan);
    }
    let Some(base) = PlanWithRoom::of(source, image, &plan, options)? else {
        let no_room = Err(Refusal::NoRoom.into());
        return if forms.contains(&Form::Repeated) {
            no_room
        } else {
            Ok(plan)
        };
    };
    for form in forms {
        let cuts = ranges(&base.plan, form);
        let Some(cut) = base.cut_text(image, cuts, form, options, readahead) else {
            continue;
        };
        match (form, admit(source, image, cut, options)) {
            // Something in the file may not move so far, or may not be cut.
            (Form::InTwo, Err(PlanError::Refusal(_))) => {}
            // Bytes may lie where none may move, and `plan` moves none.
            (_, Err(PlanError::Refusal(_))) if base.data == Data::Joined => {
                return Err(Refusal::NoRoom.into());
            }
            (_, decided) => return decided,
        }
    }
    Ok(plan)
}

/// A plan with room for cuts.
struct PlanWithRoom {
    plan: Plan,
    data: Data,
    room: Room,
}

impl PlanWithRoom {
    /// `plan`, or the same with data joined if only that has room; `None` if neither has.
    fn of(
        source: &(impl ReadAt + ?Sized),
        image: &Image,
        plan: &Plan,
        options: &Options,
    ) -> Result<Option<PlanWithRoom>, PlanError> {
        let joined = || layout_with_data_joined(image, plan.strategy, options);
        let plans = iter::once((Data::Apart, Ok(plan.clone())))
            .chain(iter::once_with(|| (Data::Joined, joined())));
        for (data, plan) in plans {
            let Ok(plan) = plan else { break };
            // Each PT_LOAD is cut once.
            let room = Room::of(source, image, &plan.headers, plan.segments.len())?;
            if room.entries() > 0 {
                return Ok(Some(PlanWithRoom { plan, data, room }));
            }
        }
        Ok(None)
    }

    /// The plan with text cut in `form` in as many of these ranges as there is room for. `None` if that gains nothing,
    /// or if something may not be cut.
    fn cut_text(
        &self,
        image: &Image,
        mut cuts: Vec<Span>,
        form: Form,
        options: &Options,
        readahead: u64,
    ) -> Option<Plan> {
        cuts.truncate(self.room.entries());
        let found = cut(self.plan.clone(), &cuts, &self.room, form);
        match form {
            Form::Repeated => Some(found),
            Form::InTwo => {
                let found = with_sections_cut(image, found, &cuts).ok()?;
                // A hole parts text from text behind it with which it fills a window.
                let reached = |plan: &Plan| plan.reached(image, options.page);
                let apart = apart(image, &found, readahead)?;
                (reached(&apart) >= reached(&found)).then_some(apart)
            }
        }
    }
}

impl Plan {
    /// What is read of the new file before a loader asks for huge folios, as
    /// [`Image::early_reads`].
    pub fn early_reads(&self) -> Vec<EarlyRead> {
        let table = Table {
            offset: self.program_table,
            count: self.headers.len() as u64,
            entry_size: self.encoding.size_of::<ProgramHeader>(),
        };
        early_reads(self.encoding, &self.headers, &table)
    }

    /// Whether a PT_LOAD of the new file repeats windows of its text.
    pub fn repeats_text(&self) -> bool {
        has_repeats(&self.headers)
    }
}
