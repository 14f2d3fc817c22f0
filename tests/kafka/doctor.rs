//! `kvset doctor` of a topic: events of every encoding, pools by key, and records that are none.

use crate::kafka_support::{Broker, Input};
use crate::program::kvset;
use kvset::codec::{RequestEncoding, encode_request};
use kvset::commands::produce::producing::message_of;
use kvset::workload::{Generator, Workload};
use serde_json::Value;

#[test]
fn a_topic_is_examined_as_its_records_are_as_a_file() {
    let requests: Vec<_> = Generator::new(Workload::default()).expect("a workload").take(300).collect();
    for broker in Broker::all() {
        let topic = broker.create("examined", 2);
        let mut input = Input::default();
        let (mut one, mut other) = (String::new(), String::new());
        for (number, request) in requests.iter().enumerate() {
            let row = request.as_row();
            let (partition, pool, file) =
                if number % 3 == 0 { (1, "b", &mut other) } else { (0, "a", &mut one) };
            let encoding =
                [RequestEncoding::Avro, RequestEncoding::AvroLongs, RequestEncoding::Json][number % 3];
            input.push_row_as(encoding, partition, pool, &row);
            let mut message = message_of(&row);
            message.pool = Some(pool.into());
            let mut line = Vec::new();
            encode_request(&message, RequestEncoding::Json, &mut line).expect("encodes");
            file.push_str(&(String::from_utf8(line).expect("JSON") + "\n"));
        }
        input.push(0, "a", b"\xff\xfe no event".to_vec());
        input.produce(&broker.connection, &topic);
        let examine = |args: &[&str]| -> (Option<i32>, Value) {
            let mut command = kvset(&["doctor", "--json"]);
            command.env("KVSET__KAFKA__BROKERS", &broker.connection.brokers).args(args);
            let output = command.output().expect("the program");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (
                output.status.code(),
                serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}")),
            )
        };
        let (status, found) = examine(&[&topic]);
        assert_eq!(
            (status, &found["requests"], &found["answer"]),
            (Some(1), &300.into(), &false.into()),
            "{found}"
        );
        let rows = &found["findings"][0];
        assert_eq!((&rows["numbers"]["bad_rows"], &rows["verdict"]), (&1.into(), &"partly".into()), "{rows}");
        let format = found["findings"][1]["evidence"].as_str().expect("words").to_owned();
        assert!(
            format.contains("301 records from 2 partitions") && format.contains("rows of events"),
            "{format}"
        );
        assert_eq!(found["findings"][2]["numbers"]["named"], 2, "pools by key");
        assert_eq!(examine(&["--skip-bad-rows", &topic]).0, Some(0));
        assert_eq!(examine(&["--records", "20", "--skip-bad-rows", &topic]).1["requests"], 20);
        // The same as a file, but for what was read.
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("log.jsonl");
        std::fs::write(&file, one + &other).expect("a disk");
        let (_, of_file) = examine(&[file.to_str().expect("UTF-8")]);
        for at in [3, 4, 5, 6, 8, 11, 12, 13, 14, 15, 16] {
            assert_eq!(found["findings"][at]["numbers"], of_file["findings"][at]["numbers"], "finding {at}");
        }
        let missing = kvset(&["doctor", "no-such-topic"])
            .env("KVSET__KAFKA__BROKERS", &broker.connection.brokers)
            .assert()
            .failure()
            .get_output()
            .stderr
            .clone();
        let missing = String::from_utf8_lossy(&missing).into_owned();
        assert!(missing.contains("`no-such-topic` is no file here, so it is taken for a topic"), "{missing}");
    }
}
