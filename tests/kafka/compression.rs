//! Record batches of every codec Kafka has.

use crate::kafka_support::{Broker, Input, Published, serve_records};
use kvset::codec::decode_estimate;
use kvset::core::estimate::Estimate;
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};

const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

#[test]
fn batches_of_every_codec_give_the_same_estimates() {
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
    let requests: Vec<_> = Generator::new(workload).expect("a workload").take(200).collect();
    for broker in Broker::all() {
        let topic = broker.create("requests", CODECS.len() as u32);
        let mut all = Input::default();
        // The same requests in each partition, as a pool and with a codec of its own.
        for (partition, codec) in (0..).zip(CODECS) {
            let mut input = Input::default();
            requests.iter().for_each(|request| input.push_row(partition, codec, &request.as_row()));
            let mut connection = broker.connection.clone();
            connection.properties.push(("compression.type".to_owned(), codec.to_owned()));
            input.produce(&connection, &topic);
            all.partitions.append(&mut input.partitions);
        }
        let plan = broker.plan(&Settings::default(), "run", CODECS.len() as u32);
        serve_records(&plan, all.records()).expect("a clean run");
        let published = Published::read(&broker, &plan.stream.outputs);
        assert!(published == all.expected(&plan.task), "real broker: {}", broker.is_real());
        let of = |codec: &str| -> Vec<Estimate> {
            let values = published.estimates[codec].iter().filter_map(|(_, value)| value.as_deref());
            let estimate = |value| decode_estimate(value).expect("an estimate");
            values
                .map(estimate)
                .map(|estimate| Estimate { pool: String::new(), partition: 0, ..estimate })
                .collect()
        };
        let plain = of("none");
        assert!(plain.len() > 3, "only {} estimates", plain.len());
        CODECS.iter().for_each(|codec| assert_eq!(of(codec), plain, "{codec}"));
    }
}
