//! What happens to files while nobody reads, and while somebody does.

use crate::bench::{Bench, events, joined};
use crate::kafka_support::wait_for;
use apache_avro::types::Value as AvroValue;
use apache_avro::{Codec, Schema, Writer};
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

#[track_caller]
fn runs(bench: &Bench, records: u64) -> String {
    let ran = bench.run("run");
    assert_eq!((ran.succeeded, ran.records), (true, records), "{}", ran.said);
    ran.said
}

#[test]
fn files_that_are_rotated_renamed_compressed_or_copied_are_read_once() {
    let (bench, lines) = (Bench::new(), events(1, 500, "m"));
    bench.write("a.jsonl", &lines[..100]);
    runs(&bench, 100);
    // Renamed, with more behind what was read, and begun anew.
    bench.append("a.jsonl", &joined(&lines[100..120]));
    fs::rename(bench.path("a.jsonl"), bench.path("a.jsonl.1")).expect("renamed");
    bench.write("a.jsonl", &lines[120..200]);
    runs(&bench, 100);
    // Compressed.
    let packed = zstd::encode_all(joined(&lines[..130]).as_bytes(), 3).expect("memory");
    fs::write(bench.path("a.jsonl.1.zst"), &packed[..packed.len() / 2]).expect("written");
    fs::remove_file(bench.path("a.jsonl.1")).expect("removed");
    runs(&bench, 0);
    fs::write(bench.path("a.jsonl.1.zst"), packed).expect("written");
    runs(&bench, 10);
    // Copied, then emptied and written to.
    fs::copy(bench.path("a.jsonl"), bench.path("a.jsonl.2")).expect("copied");
    let said = runs(&bench, 0);
    assert!(said.contains("a.jsonl.2 begins with the same line as another file"), "{said}");
    bench.write("a.jsonl", &lines[200..250]);
    runs(&bench, 50);
    // Copied in late, from another host.
    bench.write("requests-other-1.jsonl", &lines[250..]);
    runs(&bench, 250);
    runs(&bench, 0);
}

#[test]
fn what_is_cut_off_or_gone_is_said_and_the_rest_is_read_on() {
    let (bench, lines) = (Bench::new(), events(2, 300, "m"));
    bench.write("a.jsonl", &lines[..100]);
    runs(&bench, 100);
    // Cut off in the middle of a line, and written to.
    let cut = joined(&lines[..3]).len() as u64 - 20;
    fs::OpenOptions::new()
        .write(true)
        .open(bench.path("a.jsonl"))
        .expect("opened")
        .set_len(cut)
        .expect("cut");
    bench.write("b.jsonl", &lines[100..110]);
    let said = runs(&bench, 10);
    assert!(said.contains("a.jsonl was cut off ") && said.contains("reading on at its end"), "{said}");
    bench.append("a.jsonl", &joined(&lines[110..120]));
    runs(&bench, 10);
    // Gone before it was read: nobody saw it.
    bench.write("c.jsonl", &lines[120..130]);
    fs::remove_file(bench.path("c.jsonl")).expect("removed");
    fs::remove_file(bench.path("a.jsonl")).expect("removed");
    bench.write("d.jsonl", &lines[130..140]);
    runs(&bench, 10);
    // Without a state, what is left of the log is read again, and marked.
    fs::remove_dir_all(bench.place.path().join("run-state")).expect("removed");
    bench.write("e.jsonl", &lines[140..]);
    let said = runs(&bench, 170);
    assert!(said.contains("no usable snapshot: rebuilding from 120") && said.contains("warm_up"), "{said}");
}

fn avro_value(json: Value) -> AvroValue {
    match json {
        Value::Bool(truth) => AvroValue::Boolean(truth),
        Value::Number(number) => AvroValue::Long(number.as_u64().expect("a whole number").cast_signed()),
        Value::String(text) => AvroValue::String(text),
        Value::Array(items) => AvroValue::Array(items.into_iter().map(avro_value).collect()),
        Value::Object(fields) => {
            AvroValue::Map(fields.into_iter().map(|(name, value)| (name, avro_value(value))).collect())
        }
        other => panic!("no event has {other}"),
    }
}

/// An Avro container of these lines, a block each time.
fn container(blocks: &[&[String]]) -> Vec<u8> {
    let schema = Schema::parse_str(include_str!("../../schemas/request_event.avsc")).expect("a schema");
    let codec = Codec::Deflate(Default::default());
    let writer = Writer::builder().schema(&schema).codec(codec).block_size(1 << 24).writer(Vec::new());
    let mut writer = writer.build().expect("a writer");
    for block in blocks {
        for line in *block {
            let event = avro_value(serde_json::from_str(line).expect("JSON"));
            writer.append_value(event.resolve(&schema).expect("an event")).expect("memory");
        }
        writer.flush().expect("memory");
    }
    writer.into_inner().expect("memory")
}

/// A container is read as its events would be as lines: what came of it is the same, a half block waits, what no line
/// can say is a dead letter, and a damaged one is named.
#[test]
fn an_avro_container_is_its_events() {
    let (lines, packed) = (Bench::new(), Bench::new());
    let mut log = events(13, 300, "m");
    // Neither bytes of whole ids nor ids in base64.
    let mut broken: Value = serde_json::from_str(&log[120]).expect("JSON");
    broken["page_ids"] = "abcde".into();
    log.insert(121, broken.to_string());
    lines.write("a.jsonl", &log);
    runs(&lines, 301);
    let whole = container(&[&log[..100], &log[100..200], &log[200..]]);
    let two = container(&[&log[..100], &log[100..200]]).len();
    for (end, records) in
        [(3, 0), (60, 0), (two - 40, 100), (two + 200, 100), (whole.len(), 101), (whole.len(), 0)]
    {
        fs::write(packed.path("a.avro"), &whole[..end]).expect("written");
        let said = runs(&packed, records);
        assert!(!said.contains("cannot be read"), "{end}: {said}");
        // Nobody waits for the rest: it was passed over without a word.
        assert_eq!(said.contains("a.avro ends within a line, or within"), end < whole.len(), "{end}: {said}");
    }
    let [estimates, letters] = packed.published("run");
    let [expected, expected_letters] = lines.published("run");
    assert_eq!(estimates, expected);
    assert_eq!((letters.len(), expected_letters.len()), (1, 1));
    assert!(letters[0].contains("packed ids of no multiple of eight bytes"), "{}", letters[0]);
    let mut damaged = container(&[&log[..50]]);
    let last = damaged.len() - 3;
    damaged[last] ^= 1;
    fs::write(packed.path("b.avro"), damaged).expect("written");
    let said = runs(&packed, 0);
    assert!(said.contains("b.avro cannot be read") && said.contains("marker"), "{said}");
}

/// Without a record after it, no commit said that a file was cut off: what was appended since was passed over as well.
#[test]
fn a_file_that_was_cut_off_is_read_on_though_nothing_else_was_read() {
    let (bench, lines) = (Bench::new(), events(12, 120, "m"));
    bench.write("a.jsonl", &lines[..100]);
    runs(&bench, 100);
    let cut = joined(&lines[..50]).len() as u64;
    let file = fs::OpenOptions::new().write(true).open(bench.path("a.jsonl")).expect("opened");
    file.set_len(cut).expect("cut");
    let said = runs(&bench, 0);
    assert!(said.contains("a.jsonl was cut off "), "{said}");
    bench.append("a.jsonl", &joined(&lines[100..110]));
    let said = runs(&bench, 10);
    assert!(!said.contains("was cut off"), "it was said: {said}");
    bench.append("a.jsonl", &joined(&lines[110..]));
    runs(&bench, 10);
}

/// To the end of what is there, half a line is no request, and was passed over without a word.
#[test]
fn half_a_line_at_the_end_of_everything_is_said() {
    let (bench, lines) = (Bench::new(), events(14, 20, "m"));
    bench.write("a.jsonl", &lines[..10]);
    bench.append("a.jsonl", "\n  \n");
    bench.write("b.jsonl", &lines[10..]);
    assert!(!runs(&bench, 20).contains("ends within"), "blank lines");
    bench.append("a.jsonl", &lines[0][..30]);
    bench.append("c.jsonl", "PAR1");
    let said = runs(&bench, 0);
    for file in ["a.jsonl", "c.jsonl"] {
        assert!(said.contains(&format!("{file} ends within a line")), "{said}");
    }
}

/// Follows a folder live: half a line waits, and a file that vanishes while it is read is said.
#[test]
fn a_line_without_its_end_waits_and_is_no_dead_letter() {
    let (bench, lines) = (Bench::new(), events(3, 200, "m"));
    bench.write("a.jsonl", &lines[..100]);
    bench.append("a.jsonl", &lines[100][..40]);
    let mut child = bench.command("run", &[]).stderr(Stdio::null()).spawn().expect("started");
    let read_to = |next: i64| bench.log_of("run").lines().count() as i64 == next;
    wait_for(|| bench.place.path().join("run.jsonl.positions/journal").exists() && read_to(100));
    std::thread::sleep(Duration::from_millis(500));
    bench.append("a.jsonl", &format!("{}\n{}", &lines[100][40..], joined(&lines[101..])));
    wait_for(|| read_to(200));
    // Ctrl-C.
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().expect("run").success());
    let status = child.wait().expect("ended");
    assert!(status.success(), "{status}");
    assert_eq!(bench.published("run")[1], Vec::<String>::new(), "no dead letter");
    let said = runs(&bench, 0);
    assert!(said.contains("snapshot at 200 is at the committed offset"), "{said}");
}

#[test]
fn a_dead_letter_names_the_file_and_the_byte() {
    let (bench, lines) = (Bench::new(), events(4, 50, "m"));
    bench.write("a.jsonl", &lines[..30]);
    let byte = fs::metadata(bench.path("a.jsonl")).expect("there").len();
    bench.append("a.jsonl", "not an event\n");
    bench.append("a.jsonl", &joined(&lines[30..]));
    runs(&bench, 51);
    let [_, letters] = bench.published("run");
    let letter: Value = serde_json::from_str(&letters[0]).expect("JSON");
    assert_eq!(
        (letters.len(), &letter["file"], &letter["byte"]),
        (1, &"a.jsonl".into(), &byte.into()),
        "{letter}"
    );
    assert_eq!(letter["kvset_offset"], "30", "{letter}");
}

/// Where estimates end in a file, they are watched there, and the newest ones stand in one of their own.
#[test]
fn the_files_of_a_folder_are_watched_as_topics_are() {
    let (bench, lines) = (Bench::new(), events(6, 600, "m"));
    bench.write("a.jsonl", &lines);
    bench.append("a.jsonl", "not an event\n");
    runs(&bench, 601);
    let [newest, said] = bench.newest("run");
    assert_eq!((said.len(), &said), (3, &newest), "a line for each window");
    let shown = |args: &[&str], settings: &[(&str, &str)]| {
        let mut command = crate::program::kvset(args);
        command.args(["--from-beginning", "--until-end", "--json"]).current_dir(bench.place.path());
        command.envs(settings.iter().copied());
        let output = command.output().expect("run");
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let published = bench.published("run")[0].len();
    assert_eq!(shown(&["watch", "--estimates", "run.jsonl"], &[]).len(), published);
    assert_eq!(shown(&["watch", "--estimates", "run.jsonl.newest"], &[]).len(), 3);
    let configured = [("KVSET__INPUT__FOLDER", "events"), ("KVSET__OUTPUT__FILE", "run.jsonl")];
    assert_eq!(shown(&["watch", "--pool", "m"], &configured).len(), published);
    assert_eq!(shown(&["watch", "--pool", "n"], &configured).len(), 0);
    for letters in [
        shown(&["dead-letters", "--raw"], &configured),
        shown(&["dead-letters", "--raw", "--estimates", "run.jsonl"], &[]),
    ] {
        assert_eq!(letters.len(), 1);
        assert!(letters[0].contains("a.jsonl") && letters[0].contains("not an event"), "{letters:?}");
    }
    // Removed, it is made again of what the file of estimates keeps.
    let path = bench.place.path().join("run.jsonl.newest");
    fs::remove_file(&path).expect("removed");
    runs(&bench, 0);
    assert_eq!(bench.newest("run")[1], newest);
}
