//! The live view, on a terminal.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};
use ratatui::{DefaultTerminal, Frame};

use super::rows::Sample;
use super::{TITLES, cells};
use crate::documents::top::Order;
use crate::failure::Failure;
use crate::verdict::Verdict;

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// Shows the rows until the user ends it.
pub(super) fn run(sample: &mut Sample, directory: &Path, order: Order) -> Result<Verdict, Failure> {
    if !std::io::stdout().is_terminal() {
        let failure = Failure::new("standard output", "not a terminal");
        return Err(failure.remedy("use --once"));
    }
    let failed = |error: std::io::Error| Failure::new("terminal", error);
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = show(&mut terminal, sample, directory, order);
    ratatui::try_restore().map_err(failed)?;
    ended
}

fn show(
    terminal: &mut DefaultTerminal,
    sample: &mut Sample,
    directory: &Path,
    mut order: Order,
) -> Result<Verdict, Failure> {
    let failed = |error: std::io::Error| Failure::new("terminal", error);
    loop {
        sample.look(directory)?;
        let looked = Instant::now();
        while looked.elapsed() < EVERY {
            terminal
                .draw(|frame| draw(frame, sample, order))
                .map_err(failed)?;
            if !event::poll(EVERY.saturating_sub(looked.elapsed())).map_err(failed)? {
                break;
            }
            let Event::Key(key) = event::read().map_err(failed)? else {
                continue;
            };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            order = match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(Verdict::Done),
                // In raw mode, Ctrl-C is a key.
                KeyCode::Char('c') if !key.modifiers.is_empty() => return Ok(Verdict::Done),
                KeyCode::Char('c') => Order::Cpu,
                KeyCode::Char('s') => Order::Starts,
                KeyCode::Char('t') => Order::Text,
                KeyCode::Char('h') => Order::Huge,
                KeyCode::Char('n') => Order::Name,
                _ => order,
            };
        }
    }
}

fn draw(frame: &mut Frame, sample: &Sample, order: Order) {
    let [head, body] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(frame.area());
    let daemon = if sample.daemon {
        ""
    } else {
        "; no daemon, so no starts"
    };
    let keys = "sort: c cpu, s starts, t text, h huge, n name; q ends";
    let line = format!(
        "by {order:?}; {} processes hidden{daemon}; {keys}",
        sample.hidden
    );
    frame.render_widget(Line::from(line), head);
    let rows = sample.sorted(order);
    let rows = rows.iter().map(|row| Row::new(cells(row).map(Cell::from)));
    let widths = [7, 8, 6, 11, 5, 14, 80].map(Constraint::Max);
    let title = Style::default().add_modifier(Modifier::BOLD);
    let table = Table::new(rows, widths).header(Row::new(TITLES).style(title));
    frame.render_widget(table, body);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    #[test]
    fn a_screen_names_its_columns_and_this_program() {
        let mut sample = Sample::default();
        sample.look(Path::new("/no/such/directory")).unwrap();
        let mut terminal = Terminal::new(TestBackend::new(160, 400)).unwrap();
        terminal
            .draw(|frame| draw(frame, &sample, Order::Name))
            .unwrap();
        let screen = terminal.backend().to_string();
        assert!(screen.contains("program") && screen.contains("no daemon"));
        let own = std::env::current_exe().unwrap();
        let name = own.file_name().unwrap().to_string_lossy().into_owned();
        assert!(screen.contains(&name[..8]), "{screen}");
    }
}
