//! Data goes to stdout, as a table or as one JSON object; everything else goes to stderr.

use std::io::{self, Write};

use comfy_table::{Table, presets};
use serde_json::{Map, Value, json};

use crate::args::Format;
use crate::failure::Failure;

/// Names the shape of every JSON object that the command line prints.
pub(crate) const API_VERSION: &str = "firstclaim/v1";

/// How people see an answer.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// One thing: name and value a line.
    Fields(Vec<(String, String)>),
    /// Many things: one a line.
    Rows { header: Vec<&'static str>, rows: Vec<Vec<String>> },
    /// One thing that has many.
    Both { fields: Vec<(String, String)>, header: Vec<&'static str>, rows: Vec<Vec<String>> },
}

/// Where data goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
}

impl Output {
    /// Writes one answer. `data` must be an object; `kind` names its schema.
    pub(crate) fn data(self, kind: &str, data: Value, shown: &Shown) -> Result<(), Failure> {
        let text = match self.format {
            Format::Json => {
                let text = serde_json::to_string_pretty(&object(kind, data));
                text.map_err(|error| Failure::other(format!("write json: {error}")))? + "\n"
            }
            Format::Table => render(shown),
        };
        self.text(&text)
    }

    /// Writes one of a stream of answers, on one line in either form.
    pub(crate) fn event(self, kind: &str, data: Value, line: &str) -> Result<(), Failure> {
        match self.format {
            Format::Json => self.text(&format!("{}\n", object(kind, data))),
            Format::Table => self.text(&format!("{line}\n")),
        }
    }

    /// Writes text as it is.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()?;
        Ok(())
    }

    /// Says something to the person at the terminal; programs that ask for JSON get data only.
    pub(crate) fn say(self, text: &str) {
        if self.format == Format::Table {
            let _unsaid = writeln!(io::stderr(), "{text}");
        }
    }
}

/// The object of an answer.
fn object(kind: &str, data: Value) -> Value {
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(API_VERSION));
    object.insert("kind".to_owned(), json!(kind));
    if let Value::Object(fields) = data {
        object.extend(fields);
    }
    Value::Object(object)
}

fn render(shown: &Shown) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match shown {
        Shown::Fields(fields) => {
            for (name, value) in fields {
                table.add_row([name, value]);
            }
        }
        Shown::Rows { header, rows } => {
            table.set_header(header);
            table.add_rows(rows);
        }
        Shown::Both { fields, header, rows } => {
            let fields = render(&Shown::Fields(fields.clone()));
            let rows = Shown::Rows { header: header.clone(), rows: rows.clone() };
            return format!("{fields}\n{}", render(&rows));
        }
    }
    // The style pads each cell; the margins are of no use to anybody.
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_no_borders_and_no_margins() {
        let rows = Shown::Rows {
            header: vec!["NAME", "ETAG"],
            rows: vec![
                vec!["acme".to_owned(), "0-1".to_owned()],
                vec!["b".to_owned(), String::new()],
            ],
        };
        assert_eq!(render(&rows), "NAME  ETAG\nacme  0-1\nb\n");
        let fields = Shown::Fields(vec![("epoch".to_owned(), "281474976710657".to_owned())]);
        assert_eq!(render(&fields), "epoch  281474976710657\n");
        let both = Shown::Both {
            fields: vec![("key".to_owned(), "k".to_owned())],
            header: vec!["TIME"],
            rows: vec![vec!["now".to_owned()]],
        };
        assert_eq!(render(&both), "key  k\n\nTIME\nnow\n");
    }
}
