//! Trace files, read as every format in turn. Seeds: `tests/fixtures/trace` and
//! `tests/fixtures/tokenize/cases.jsonl`.
#![no_main]

use kvset::tokenize::Model;
use kvset::trace::{Format, IdScope, ReadOptions, TraceItem, TraceReader, write_row};
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, LazyLock};

static MODEL: LazyLock<Arc<Model>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/tokenize/chatml");
    Arc::new(Model::load(Path::new(folder)).expect("the fixture is there"))
});

/// Compressed input may hold many more rows than bytes.
const MOST_ROWS: usize = 10_000;

fuzz_target!(|file: &[u8]| {
    for (_, format) in Format::NAMES {
        for id_scope in [IdScope::Auto, IdScope::Field("id".to_owned())] {
            let options = ReadOptions {
                format,
                id_scope,
                model: Some(Arc::clone(&MODEL)),
                max_line_bytes: 1 << 20,
                reorder_bytes: 4096,
                ..ReadOptions::default()
            };
            read(file, &options);
        }
    }
});

fn read(file: &[u8], options: &ReadOptions) {
    let input = Box::new(Cursor::new(file.to_vec()));
    let Ok(mut reader) = TraceReader::from_reader("fuzz", input, options) else { return };
    for _ in 0..MOST_ROWS {
        match reader.next_item() {
            Ok(Some(TraceItem::Request(row))) => {
                assert!(row.event.page_size.is_some());
                write_row(&mut std::io::sink(), &row).expect("a sink takes everything");
            }
            Ok(Some(TraceItem::Refused(error))) => assert!(error.to_string().len() < 1000),
            Ok(None) | Err(_) => break,
        }
    }
}
