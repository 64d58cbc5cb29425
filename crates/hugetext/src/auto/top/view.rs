//! The live view, on a terminal.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::{DefaultTerminal, Frame};

use super::keys::{HELP, KeyMode, Sight, Then};
use super::lines::{lines, once_meaning};
use super::rows::Sample;
use crate::documents::top::{Order, Row};
use crate::failure::Failure;
use crate::verdict::Verdict;

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// Lines around the rows: the head, the titles and the foot.
const AROUND: u16 = 3;

/// Shows the rows until the user ends it.
pub(super) fn run(sample: &mut Sample, directory: &Path, order: Order) -> Result<Verdict, Failure> {
    if !std::io::stdout().is_terminal() {
        let failure = Failure::new("standard output", "not a terminal");
        return Err(failure.remedy("use --once"));
    }
    let failed = |error: std::io::Error| Failure::new("terminal", error);
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = show(&mut terminal, sample, directory, Sight::new(order));
    ratatui::try_restore().map_err(failed)?;
    ended
}

fn show(
    terminal: &mut DefaultTerminal,
    sample: &mut Sample,
    directory: &Path,
    mut sight: Sight,
) -> Result<Verdict, Failure> {
    let failed = |error: std::io::Error| Failure::new("terminal", error);
    loop {
        sample.look(directory)?;
        let looked = Instant::now();
        while looked.elapsed() < EVERY {
            let rows = sight.filtered(sample.sorted(sight.order));
            let drawn = terminal.draw(|frame| draw(frame, sample, &sight, &rows));
            let page = usize::from(drawn.map_err(failed)?.area.height.saturating_sub(AROUND));
            if !event::poll(EVERY.saturating_sub(looked.elapsed())).map_err(failed)? {
                break;
            }
            let Event::Key(key) = event::read().map_err(failed)? else {
                continue;
            };
            if key.kind == KeyEventKind::Press && sight.press(key, page, rows.len()) == Then::End {
                return Ok(Verdict::Done);
            }
        }
    }
}

fn draw(frame: &mut Frame, sample: &Sample, sight: &Sight, rows: &[Row]) {
    let parts = [
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [head, body, foot] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Line::from(headline(sample, sight, rows.len())), head);
    if sight.mode == KeyMode::Help {
        frame.render_widget(Text::from(HELP.map(Line::from).to_vec()), body);
    } else {
        draw_rows(frame, body, sight, rows);
    }
    let keys = match sight.mode {
        KeyMode::Command => format!("? help, / filter, q end. {}", once_meaning(rows).says),
        KeyMode::Filter => format!("filter: {}_", sight.filter),
        KeyMode::Help => "any key goes back".to_owned(),
    };
    frame.render_widget(Line::from(keys), foot);
}

fn draw_rows(frame: &mut Frame, area: Rect, sight: &Sight, rows: &[Row]) {
    let (titles, drawn) = lines(rows, usize::from(area.width));
    let title = Style::default().add_modifier(Modifier::BOLD);
    let shown = drawn.into_iter().skip(sight.first).map(Line::from);
    let all = std::iter::once(Line::styled(titles, title)).chain(shown);
    let all: Vec<Line> = all.take(usize::from(area.height)).collect();
    frame.render_widget(Text::from(all), area);
}

/// How many there are, in which order, and what is not shown.
fn headline(sample: &Sample, sight: &Sight, shown: usize) -> String {
    let order = format!("{:?}", sight.order).to_lowercase();
    let mut line = format!("{shown} programs by {order}");
    if !sight.filter.is_empty() {
        line.push_str(&format!(" with \"{}\"", sight.filter));
    }
    if sample.hidden > 0 {
        line.push_str(&format!("; {} processes hidden", sample.hidden));
    }
    if !sample.daemon {
        line.push_str("; no daemon, so no starts");
    }
    line
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn screen(width: u16, sight: &Sight, rows: &[Row]) -> String {
        let mut sample = Sample::default();
        sample.look(Path::new("/no/such/directory")).unwrap();
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
        terminal
            .draw(|frame| draw(frame, &sample, sight, rows))
            .unwrap();
        terminal.backend().to_string()
    }

    fn rows() -> Vec<Row> {
        let row = |number: u32| Row {
            name: format!("/usr/lib/a-long-directory-of-a-package/{number}/program-{number}"),
            cpu_ns: 4_000_000_000_000,
            cpu_percent: Some(99.5),
            starts: Some(1234.0),
            processes: 123,
            text: (1023 << 20) - 1,
            huge: 1 << 29,
            state: "would be held".to_owned(),
        };
        (100..140).map(row).collect()
    }

    #[test]
    fn eighty_columns_cut_off_no_unit_and_no_name() {
        let shown = screen(80, &Sight::new(Order::Name), &rows());
        assert!(
            shown.contains("no daemon") && shown.contains("/program-100"),
            "{shown}"
        );
        assert!(
            shown.contains("MiB") && shown.contains("67 min") && shown.contains("50%"),
            "{shown}"
        );
    }

    #[test]
    fn scrolled_rows_are_others_and_help_names_the_keys() {
        let mut sight = Sight::new(Order::Name);
        sight.first = 5;
        let shown = screen(80, &sight, &rows());
        assert!(
            !shown.contains("/program-104") && shown.contains("/program-105"),
            "{shown}"
        );
        sight.mode = KeyMode::Help;
        let shown = screen(80, &sight, &rows());
        assert!(
            shown.contains("scroll") && shown.contains("huge pages"),
            "{shown}"
        );
    }
}
