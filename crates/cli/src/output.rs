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
                let mut object = Map::new();
                object.insert("apiVersion".to_owned(), json!(API_VERSION));
                object.insert("kind".to_owned(), json!(kind));
                if let Value::Object(fields) = data {
                    object.extend(fields);
                }
                let text = serde_json::to_string_pretty(&Value::Object(object));
                text.map_err(|error| Failure::other(format!("write json: {error}")))? + "\n"
            }
            Format::Table => render(shown),
        };
        self.text(&text)
    }

    /// Writes text as it is.
    pub(crate) fn text(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
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
    }
}
