//! `csv`: tables as text.

use std::collections::HashSet;

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::values::Value;
use starlark::values::dict::{Dict, DictRef};
use starlark::values::list::{AllocList, ListRef};
use starlark::values::none::NoneOr;
use starlark::values::tuple::TupleRef;
use starloom_builtins_macro::builtins;

use crate::builtins::printable;
use crate::context::{Output, Rounds};

fn delimiter_byte(function: &str, delimiter: &str) -> anyhow::Result<u8> {
    match delimiter.as_bytes() {
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => anyhow::bail!("csv.{function}: delimiter must be one ASCII character, got: {delimiter:?}"),
    }
}

/// What the reader says, without the parts only its programmer understands.
fn explain(error: csv::Error) -> anyhow::Error {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            anyhow::anyhow!("csv.decode: line {line} has {len} fields, the lines before have {expected_len}")
        }
        _ => anyhow::anyhow!("csv.decode: {error}"),
    }
}

fn header_names(record: &csv::StringRecord) -> anyhow::Result<Vec<String>> {
    let mut seen = HashSet::new();
    for name in record {
        anyhow::ensure!(
            seen.insert(name),
            "csv.decode: the header names `{name}` twice; use `header = False` to get lists"
        );
    }
    Ok(record.iter().map(str::to_owned).collect())
}

/// The cells of a row that is a list or a tuple.
fn cells<'v>(row: Value<'v>) -> Option<&'v [Value<'v>]> {
    ListRef::from_value(row)
        .map(|list| list.content())
        .or_else(|| TupleRef::from_value(row).map(|tuple| tuple.content()))
}

fn cell_text(value: Value) -> anyhow::Result<String> {
    if value.is_none() { Ok(String::new()) } else { printable(value) }
}

/// What the first line says, and whether it is written at all.
struct Header<'v> {
    names: Option<Vec<Value<'v>>>,
    written: bool,
}

fn header_of<'v>(header: NoneOr<Value<'v>>, eval: &Evaluator<'v, '_, '_>) -> anyhow::Result<Header<'v>> {
    let Some(header) = header.into_option() else { return Ok(Header { names: None, written: true }) };
    if let Some(written) = header.unpack_bool() {
        return Ok(Header { names: None, written });
    }
    let problem = || {
        anyhow::anyhow!(
            "csv.encode: header must be a list of column names or a bool, got: {}",
            header.get_type()
        )
    };
    let names: Vec<Value> = header.iterate(eval.heap()).map_err(|_| problem())?.collect();
    Ok(Header { names: Some(names), written: true })
}

/// The keys of all dicts among the rows, in the order they first appear.
fn columns_of<'v>(rows: &[Value<'v>]) -> anyhow::Result<Vec<Value<'v>>> {
    let mut rounds = Rounds::default();
    let mut columns: SmallMap<Value, ()> = SmallMap::new();
    for row in rows {
        let Some(dict) = DictRef::from_value(*row) else { continue };
        for (key, _) in dict.iter_hashed() {
            rounds.tick()?;
            columns.insert_hashed(key, ());
        }
    }
    Ok(columns.into_keys().collect())
}

fn write_rows<'v>(
    rows: &[Value<'v>],
    header: Header<'v>,
    delimiter: u8,
    eval: &Evaluator<'v, '_, '_>,
) -> anyhow::Result<String> {
    // A wide header makes every row wide, however little each row holds itself.
    let mut writer =
        csv::WriterBuilder::new().delimiter(delimiter).flexible(true).from_writer(Output::new(eval)?);
    let columns = match header.names {
        Some(names) => names,
        None => columns_of(rows)?,
    };
    if header.written && !columns.is_empty() {
        let names = columns.iter().map(|name| cell_text(*name)).collect::<anyhow::Result<Vec<_>>>()?;
        writer.write_record(names)?;
    }
    let hashed = columns.iter().map(|name| name.get_hashed()).collect::<starlark::Result<Vec<_>>>();
    let hashed = hashed.map_err(|error| anyhow::anyhow!("csv.encode: a column name: {error}"))?;
    let mut rounds = Rounds::default();
    let mut width = None;
    for (index, row) in rows.iter().enumerate() {
        let mut texts = Vec::new();
        if let Some(dict) = DictRef::from_value(*row) {
            for name in &hashed {
                rounds.tick()?;
                texts.push(dict.get_hashed(*name).map_or(Ok(String::new()), cell_text)?);
            }
        } else if let Some(cells) = cells(*row) {
            for cell in cells {
                rounds.tick()?;
                texts.push(cell_text(*cell)?);
            }
        } else {
            anyhow::bail!("csv.encode: row {index} must be a dict or a list, got: {}", row.get_type());
        }
        let expected = *width.get_or_insert(if columns.is_empty() { texts.len() } else { columns.len() });
        anyhow::ensure!(
            texts.len() == expected,
            "csv.encode: row {index} has {} fields, expected {expected}",
            texts.len()
        );
        writer.write_record(texts)?;
    }
    writer.into_inner().map_err(|error| anyhow::anyhow!("csv.encode: {}", error.error()))?.into_text()
}

#[builtins]
pub(crate) fn register(globals: &mut GlobalsBuilder) {
    /// The rows of a table: a list of dicts by column name, or of lists without a header.
    ///
    /// Every field is a string. Rows of another length than the first are an error.
    ///
    /// Args:
    ///     text: the table
    ///     header: whether the first line names the columns
    ///     delimiter: the character between fields
    fn decode<'v>(
        text: &str,
        #[starlark(default = true)] header: bool,
        #[starlark(default = ",")] delimiter: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<Value<'v>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter_byte("decode", delimiter)?)
            .has_headers(header)
            .from_reader(text.as_bytes());
        let heap = eval.heap();
        let mut rounds = Rounds::default();
        let mut rows = Vec::new();
        let mut keys = Vec::new();
        if header {
            for name in header_names(reader.headers().map_err(explain)?)? {
                keys.push(
                    heap.alloc_str(&name).to_value().get_hashed().map_err(|error| error.into_anyhow())?,
                );
            }
        }
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record).map_err(explain)? {
            let mut fields = Vec::with_capacity(record.len());
            for field in &record {
                rounds.tick()?;
                fields.push(heap.alloc(field));
            }
            rows.push(if header {
                let mut row = SmallMap::with_capacity(keys.len());
                for (key, field) in keys.iter().zip(fields) {
                    row.insert_hashed(*key, field);
                }
                heap.alloc(Dict::new(row))
            } else {
                heap.alloc(AllocList(fields))
            });
        }
        Ok(heap.alloc(AllocList(rows)))
    }

    /// A table as text, one line per row.
    ///
    /// Args:
    ///     rows: list of dicts, or of lists; `None` becomes an empty field, other values their text
    ///     header: list of the columns to write, in this order; for dicts the default is every key, and
    ///         `False` leaves the header line out
    ///     delimiter: the character between fields
    fn encode<'v>(
        rows: Value<'v>,
        #[starlark(default = NoneOr::None)] header: NoneOr<Value<'v>>,
        #[starlark(default = ",")] delimiter: &str,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> anyhow::Result<String> {
        let delimiter = delimiter_byte("encode", delimiter)?;
        let header = header_of(header, eval)?;
        let rows: Vec<Value> = rows
            .iterate(eval.heap())
            .map_err(|_| anyhow::anyhow!("csv.encode: rows must be a list, got: {}", rows.get_type()))?
            .collect();
        write_rows(&rows, header, delimiter, eval)
    }
}
