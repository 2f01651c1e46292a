//! Runs every script under `tests/scripts/engine` on every engine: they answer alike.

use std::error::Error;
use std::path::Path;

use crate::store::engine::{Batch, Durability, Engine, Row, in_view};
use crate::store::memory::Memory;
use crate::store::schema::Table;

test_each_file::test_each_path! { in "crates/replica/tests/scripts/engine" => run_on_all }

fn run_on_all(path: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new("memory");
    goldenscript::run(&mut Runner::new(Box::new(memory)), path).expect("memory");
    #[cfg(feature = "rocksdb")]
    {
        use crate::store::rocks::{Rocks, Use};
        let rocks = Rocks::open(&dir.path().join("db"), Use::State).unwrap();
        goldenscript::run(&mut Runner::new(Box::new(rocks)), path).expect("rocksdb");
    }
    drop(dir);
}

struct Runner {
    engine: Box<dyn Engine>,
    batch: Batch,
    table: Table,
}

impl Runner {
    fn new(engine: Box<dyn Engine>) -> Self {
        Self { engine, batch: Batch::default(), table: Table::Records }
    }
}

/// The commands that a script may use.
#[derive(goldenscript::Command)]
enum Line {
    /// Says which table the following commands mean. At first it is `records`.
    Table(String),
    /// Puts a row into the present batch.
    Put { key: String, value: String },
    /// Deletes a row in the present batch.
    Delete(String),
    /// Deletes rows from the first key up to the second in the present batch.
    DeleteRange { from: String, to: String },
    /// Writes the present batch.
    Write,
    /// Prints a value.
    Get(String),
    /// Prints up to `limit` rows from the first key up to the second.
    Scan { from: String, to: String, limit: usize },
    /// Prints the last row from the first key up to the second.
    Last { from: String, to: String },
    /// Prints all rows of a consistent view.
    View,
}

fn show(rows: &[Row]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let rows: Vec<_> =
        rows.iter().map(|(key, value)| format!("{}={}", text(key), text(value))).collect();
    if rows.is_empty() { "none".to_owned() } else { rows.join(" ") }
}

impl goldenscript::Runner for Runner {
    type Command = Line;

    fn run(
        &mut self,
        line: &Line,
        _context: &goldenscript::Context,
    ) -> Result<String, Box<dyn Error>> {
        let table = self.table;
        match line {
            Line::Table(name) => {
                let named = Table::STATE.iter().find(|table| table.name() == name);
                self.table = *named.ok_or_else(|| format!("there is no table {name}"))?;
            }
            Line::Put { key, value } => {
                self.batch.put(table, key.clone().into(), value.clone().into());
            }
            Line::Delete(key) => self.batch.delete(table, key.clone().into()),
            Line::DeleteRange { from, to } => {
                self.batch.delete_range(table, from.clone().into(), to.clone().into());
            }
            Line::Write => {
                self.engine.write(std::mem::take(&mut self.batch), Durability::Unsynced)?;
            }
            Line::Get(key) => {
                let value = self.engine.get(table, key.as_bytes())?;
                let row = value.map(|value| (key.clone().into_bytes(), value));
                return Ok(show(row.as_slice()));
            }
            Line::Scan { from, to, limit } => {
                return Ok(show(&self.engine.scan(
                    table,
                    from.as_bytes(),
                    to.as_bytes(),
                    *limit,
                )?));
            }
            Line::Last { from, to } => {
                let row = self.engine.last(table, from.as_bytes(), to.as_bytes())?;
                return Ok(show(row.as_slice()));
            }
            Line::View => {
                let rows = in_view(&*self.engine, |read| read.scan(table, b"", b"~", usize::MAX))?;
                return Ok(show(&rows));
            }
        }
        Ok(String::new())
    }
}
