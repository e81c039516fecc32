//! Results of a sweep as CSV: parameters, columns, seconds, error.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::spec::{Job, Spec};

/// One combination's results.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub values: Vec<String>,
    pub columns: Vec<String>,
    pub seconds: f64,
    /// Empty if all went well.
    pub error: String,
}

/// All rows, and the file they are in.
pub struct Table {
    path: PathBuf,
    header: Vec<String>,
    parameters: usize,
    pub rows: Vec<Row>,
}

impl Table {
    /// Opens the results of an earlier run, or begins a file.
    pub fn open(path: &Path, spec: &Spec) -> Result<Table, String> {
        let names =
            spec.over.iter().map(|(name, _)| name).chain(spec.columns.iter().map(|(name, _)| name));
        let header = names.cloned().chain(["seconds".to_string(), "error".to_string()]).collect();
        let mut table = Table {
            path: path.to_path_buf(),
            header,
            parameters: spec.over.len(),
            rows: Vec::new(),
        };
        if path.exists() {
            table.read()?;
        } else {
            table.write()?;
        }
        Ok(table)
    }

    fn read(&mut self) -> Result<(), String> {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", self.path.display());
        let mut reader = csv::Reader::from_path(&self.path).map_err(|e| said(&e))?;
        if reader.headers().map_err(|e| said(&e))?.iter().ne(&self.header) {
            return Err(said(
                &"the results of another sweep; remove them, or name another folder with -o",
            ));
        }
        for record in reader.records() {
            // A run that was killed may leave half a line.
            let Ok(record) = record else { break };
            let cells: Vec<String> = record.iter().map(str::to_string).collect();
            let (values, rest) = cells.split_at(self.parameters);
            let (columns, last) = rest.split_at(rest.len() - 2);
            let seconds = last[0].parse().unwrap_or(0.0);
            let row = Row {
                values: values.to_vec(),
                columns: columns.to_vec(),
                seconds,
                error: last[1].clone(),
            };
            // What failed is tried again.
            if row.error.is_empty() {
                self.rows.push(row);
            }
        }
        self.write()
    }

    /// True if a combination's results are there.
    pub fn has(&self, values: &[String]) -> bool {
        self.rows.iter().any(|row| row.values == values)
    }

    /// How many combinations failed.
    pub fn failed(&self) -> usize {
        self.rows.iter().filter(|row| !row.error.is_empty()).count()
    }

    /// Adds a row, in the file too.
    pub fn add(&mut self, row: Row) -> Result<(), String> {
        let file = OpenOptions::new().append(true).open(&self.path);
        let written = file.map_err(csv::Error::from).and_then(|file| {
            let mut writer = csv::Writer::from_writer(file);
            writer.write_record(cells(&row))?;
            Ok(writer.flush()?)
        });
        self.rows.push(row);
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }

    /// Writes all rows anew, in the sweep's order.
    pub fn finish(&mut self, jobs: &[Job]) -> Result<(), String> {
        let place = |row: &Row| jobs.iter().position(|job| job.values == row.values);
        self.rows.sort_by_key(|row| place(row).unwrap_or(usize::MAX));
        self.write()
    }

    fn write(&self) -> Result<(), String> {
        let write = || -> Result<(), csv::Error> {
            // Beside it first: an interrupt leaves the old file or the new one.
            let beside = self.path.with_extension("csv.new");
            let mut writer = csv::Writer::from_writer(File::create(&beside)?);
            writer.write_record(&self.header)?;
            for row in &self.rows {
                writer.write_record(cells(row))?;
            }
            writer.flush()?;
            Ok(std::fs::rename(&beside, &self.path)?)
        };
        write().map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

fn cells(row: &Row) -> Vec<String> {
    let mut cells = [row.values.clone(), row.columns.clone()].concat();
    cells.extend([row.seconds.to_string(), row.error.clone()]);
    cells
}
