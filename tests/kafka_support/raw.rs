//! Record batches byte by byte, and a producer that sends them as they are: what no client would write.

use std::io::{Read, Write};
use std::net::TcpStream;

/// A batch of records of Kafka's message format 2.
#[derive(Debug, Clone)]
pub struct RawBatch {
    /// 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; others exist in no client.
    pub codec: i16,
    pub records: i32,
    /// The records, compressed if a codec says so.
    pub payload: Vec<u8>,
    /// Broken on purpose.
    pub bad_checksum: bool,
}

/// What comes before the value of a record of a batch, and what comes behind it.
fn around(number: i64, key: Option<&[u8]>, value_bytes: Option<usize>) -> (Vec<u8>, Vec<u8>) {
    let length = |bytes: Option<usize>| bytes.map_or(-1, |bytes| bytes as i64);
    let mut inner = vec![0]; // attributes
    put_varint(&mut inner, 0); // time stamp, from that of the batch
    put_varint(&mut inner, number); // offset, from that of the batch
    put_varint(&mut inner, length(key.map(<[u8]>::len)));
    inner.extend_from_slice(key.unwrap_or_default());
    put_varint(&mut inner, length(value_bytes));
    let mut tail = Vec::new();
    put_varint(&mut tail, 0); // no headers
    let mut head = Vec::new();
    put_varint(&mut head, (inner.len() + value_bytes.unwrap_or(0) + tail.len()) as i64);
    head.extend(inner);
    (head, tail)
}

/// Records with these keys and values as one batch.
pub fn batch<'r>(records: impl IntoIterator<Item = (Option<&'r [u8]>, Option<&'r [u8]>)>) -> RawBatch {
    let (mut payload, mut number) = (Vec::new(), 0);
    for (key, value) in records {
        let (head, tail) = around(number, key, value.map(<[u8]>::len));
        payload.extend(head);
        payload.extend_from_slice(value.unwrap_or_default());
        payload.extend(tail);
        number += 1;
    }
    RawBatch { codec: 0, records: number as i32, payload, bad_checksum: false }
}

/// Writes one record with a value of so many zeros into a compressor.
fn write_zeros(out: &mut dyn Write, value_bytes: usize) {
    let (head, tail) = around(0, Some(b"bomb"), Some(value_bytes));
    out.write_all(&head).expect("memory");
    let zeros = vec![0; 1 << 20];
    let mut left = value_bytes;
    while left > 0 {
        let part = left.min(zeros.len());
        out.write_all(&zeros[..part]).expect("memory");
        left -= part;
    }
    out.write_all(&tail).expect("memory");
}

/// One record of so many zeros, compressed with zstd.
pub fn zstd_bomb(value_bytes: usize) -> RawBatch {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    write_zeros(&mut encoder, value_bytes);
    RawBatch { codec: 4, records: 1, payload: encoder.finish().expect("memory"), bad_checksum: false }
}

/// The same with gzip, which the client decompresses however large it becomes.
pub fn gzip_bomb(value_bytes: usize) -> RawBatch {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    write_zeros(&mut encoder, value_bytes);
    RawBatch { codec: 1, records: 1, payload: encoder.finish().expect("memory"), bad_checksum: false }
}

fn put_varint(out: &mut Vec<u8>, value: i64) {
    let mut bits = ((value << 1) ^ (value >> 63)) as u64;
    while bits >= 0x80 {
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

impl RawBatch {
    fn bytes(&self, timestamp_ms: i64) -> Vec<u8> {
        let mut covered = Vec::new();
        covered.extend(self.codec.to_be_bytes());
        covered.extend((self.records - 1).to_be_bytes());
        covered.extend(timestamp_ms.to_be_bytes());
        covered.extend(timestamp_ms.to_be_bytes());
        covered.extend((-1_i64).to_be_bytes()); // no producer's id
        covered.extend((-1_i16).to_be_bytes());
        covered.extend((-1_i32).to_be_bytes());
        covered.extend(self.records.to_be_bytes());
        covered.extend(&self.payload);
        let crc = crc32c(&covered) ^ u32::from(self.bad_checksum);
        let mut batch = Vec::new();
        batch.extend(0_i64.to_be_bytes()); // the broker says where it stands
        batch.extend((covered.len() as i32 + 9).to_be_bytes());
        batch.extend((-1_i32).to_be_bytes());
        batch.push(2);
        batch.extend(crc.to_be_bytes());
        batch.extend(covered);
        batch
    }

    /// Produces the batch at this broker, which leads the partition; gives the broker's error code, 0 for none.
    pub fn produce(&self, broker: &str, topic: &str, partition: i32, timestamp_ms: i64) -> i16 {
        let batch = self.bytes(timestamp_ms);
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as i16).to_be_bytes());
            out.extend(text.as_bytes());
        };
        // Produce, version 7, the first that takes zstd.
        let mut request = Vec::new();
        request.extend(0_i16.to_be_bytes());
        request.extend(7_i16.to_be_bytes());
        request.extend(1_i32.to_be_bytes());
        text(&mut request, "raw");
        request.extend((-1_i16).to_be_bytes()); // no transaction
        request.extend((-1_i16).to_be_bytes()); // acknowledged by all
        request.extend(30_000_i32.to_be_bytes());
        request.extend(1_i32.to_be_bytes());
        text(&mut request, topic);
        request.extend(1_i32.to_be_bytes());
        request.extend(partition.to_be_bytes());
        request.extend((batch.len() as i32).to_be_bytes());
        request.extend(batch);
        let address = broker.split(',').next().expect("a broker");
        let mut stream = TcpStream::connect(address).expect("a broker that listens");
        stream.write_all(&(request.len() as i32).to_be_bytes()).expect("sent");
        stream.write_all(&request).expect("sent");
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("an answer");
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).expect("an answer");
        // Correlation, one topic with its name, one partition with its number, and the code.
        let at = 4 + 4 + 2 + topic.len() + 4 + 4;
        i16::from_be_bytes([answer[at], answer[at + 1]])
    }
}

#[test]
fn the_checksum_is_castagnolis() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}
