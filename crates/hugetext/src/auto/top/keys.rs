//! What the user sees of the rows, and how keys change it. Pure.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use crate::documents::top::{Order, Row};

/// What the user sees.
#[derive(Debug)]
pub(super) struct Sight {
    /// What rows are sorted by.
    pub(super) order: Order,
    /// Only programs whose name holds this are shown.
    pub(super) filter: String,
    /// The first row that is shown.
    pub(super) first: usize,
    /// What keys mean.
    pub(super) mode: KeyMode,
}

/// What keys mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyMode {
    /// Commands.
    Command,
    /// Letters of the filter.
    Filter,
    /// Any key ends the help.
    Help,
}

/// Whether the view goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    End,
}

/// What the help says.
pub(super) const HELP: [&str; 13] = [
    "c s t h n        sort by cpu, starts, text, huge, name",
    "/                show only programs whose name holds what follows; Enter ends it",
    "Esc              show all programs again; without a filter: end",
    "Up Down PgUp PgDn Home End    scroll",
    "q                end",
    "",
    "cpu     processor time of the processes that run now",
    "now     the same since the last look, in percent of one processor",
    "starts  starts that the daemon of hugetext auto remembers",
    "procs   processes that run it",
    "text    text in memory, with libraries, of the process that has most",
    "huge    the share of it on huge pages",
    "state   what the daemon does about the program's own file",
];

impl Sight {
    pub(super) fn new(order: Order) -> Sight {
        Sight {
            order,
            filter: String::new(),
            first: 0,
            mode: KeyMode::Command,
        }
    }

    /// The rows that the filter lets through.
    pub(super) fn filtered(&self, rows: Vec<Row>) -> Vec<Row> {
        let filter = self.filter.to_lowercase();
        let mut rows = rows;
        rows.retain(|row| row.name.to_lowercase().contains(&filter));
        rows
    }

    /// What a key does. `page` rows are on the screen, of `rows`.
    pub(super) fn press(&mut self, key: KeyEvent, page: usize, rows: usize) -> Then {
        match self.mode {
            KeyMode::Help => self.mode = KeyMode::Command,
            KeyMode::Filter => self.edit(key),
            KeyMode::Command => return self.command(key, page, rows),
        }
        Then::GoOn
    }

    fn edit(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.mode = KeyMode::Command,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = KeyMode::Command;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.first = 0;
    }

    fn command(&mut self, key: KeyEvent, page: usize, rows: usize) -> Then {
        let last = rows.saturating_sub(page);
        match key.code {
            // In raw mode, Ctrl-C is a key.
            KeyCode::Char('c') if !key.modifiers.is_empty() => return Then::End,
            KeyCode::Char('q') => return Then::End,
            KeyCode::Esc if self.filter.is_empty() => return Then::End,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.mode = KeyMode::Filter,
            KeyCode::Char('?') => self.mode = KeyMode::Help,
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::Down => self.first = self.first.saturating_add(1),
            KeyCode::PageUp => self.first = self.first.saturating_sub(page),
            KeyCode::PageDown => self.first = self.first.saturating_add(page),
            KeyCode::Home => self.first = 0,
            KeyCode::End => self.first = last,
            KeyCode::Char('c') => self.order = Order::Cpu,
            KeyCode::Char('s') => self.order = Order::Starts,
            KeyCode::Char('t') => self.order = Order::Text,
            KeyCode::Char('h') => self.order = Order::Huge,
            KeyCode::Char('n') => self.order = Order::Name,
            _ => {}
        }
        self.first = self.first.min(last);
        Then::GoOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(sight: &mut Sight, code: KeyCode) -> Then {
        sight.press(KeyEvent::from(code), 10, 25)
    }

    #[test]
    fn scrolling_stays_within_the_rows() {
        let mut sight = Sight::new(Order::Cpu);
        for (code, first) in [
            (KeyCode::Up, 0),
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 11),
            (KeyCode::PageDown, 15),
            (KeyCode::Home, 0),
            (KeyCode::End, 15),
        ] {
            assert_eq!(press(&mut sight, code), Then::GoOn);
            assert_eq!(sight.first, first, "{code:?}");
        }
    }

    #[test]
    fn letters_of_a_filter_are_no_commands() {
        let mut sight = Sight::new(Order::Cpu);
        for code in [
            KeyCode::Char('/'),
            KeyCode::Char('q'),
            KeyCode::Char('x'),
            KeyCode::Backspace,
            KeyCode::Enter,
        ] {
            assert_eq!(press(&mut sight, code), Then::GoOn);
        }
        let named = |name: &str| Row {
            name: name.to_owned(),
            ..Row::default()
        };
        let rows = sight.filtered(vec![named("/bin/Qemu"), named("/bin/sh")]);
        assert_eq!(rows.len(), 1);
        assert_eq!(press(&mut sight, KeyCode::Esc), Then::GoOn);
        assert_eq!(sight.filter, "");
        assert_eq!(press(&mut sight, KeyCode::Esc), Then::End);
    }

    #[test]
    fn any_key_ends_the_help() {
        let mut sight = Sight::new(Order::Cpu);
        press(&mut sight, KeyCode::Char('?'));
        assert_eq!(sight.mode, KeyMode::Help);
        assert_eq!(press(&mut sight, KeyCode::Char('q')), Then::GoOn);
        assert_eq!(sight.mode, KeyMode::Command);
    }
}
