//! Runs every script under `tests/scripts/engine` on every engine: they answer alike.

use std::error::Error;
use std::path::Path;

use crate::store::engine::{Batch, Durability, Engine, in_view};
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
}

impl Runner {
    fn new(engine: Box<dyn Engine>) -> Self {
        Self { engine, batch: Batch::default() }
    }
}

fn show(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rows(rows: &[(Vec<u8>, Vec<u8>)]) -> String {
    rows.iter().map(|(key, value)| format!("{}={}\n", show(key), show(value))).collect()
}

impl goldenscript::Runner for Runner {
    fn run(&mut self, command: &goldenscript::Command) -> Result<String, Box<dyn Error>> {
        let mut args = command.consume_args();
        let table = Table::Records;
        let mut next = || -> Result<String, Box<dyn Error>> {
            Ok(args.next_pos().ok_or("an argument is missing")?.value.clone())
        };
        match command.name.as_str() {
            "put" => self.batch.put(table, next()?.into(), next()?.into()),
            "delete" => self.batch.delete(table, next()?.into()),
            "delete_range" => self.batch.delete_range(table, next()?.into(), next()?.into()),
            "write" => self.engine.write(std::mem::take(&mut self.batch), Durability::Process)?,
            "get" => {
                let value = self.engine.get(table, next()?.as_bytes())?;
                return Ok(value.map_or("none".to_owned(), |value| show(&value)));
            }
            "scan" => {
                let (from, to, limit) = (next()?, next()?, next()?.parse()?);
                return Ok(rows(&self.engine.scan(
                    table,
                    from.as_bytes(),
                    to.as_bytes(),
                    limit,
                )?));
            }
            "last" => {
                let (from, to) = (next()?, next()?);
                let row = self.engine.last(table, from.as_bytes(), to.as_bytes())?;
                return Ok(row.map_or("none".to_owned(), |row| rows(&[row])));
            }
            "view" => {
                let (from, to) = (next()?, next()?);
                let seen = in_view(&*self.engine, |read| {
                    read.scan(table, from.as_bytes(), to.as_bytes(), usize::MAX)
                })?;
                return Ok(rows(&seen));
            }
            name => return Err(format!("unknown command {name}").into()),
        }
        Ok(String::new())
    }
}
