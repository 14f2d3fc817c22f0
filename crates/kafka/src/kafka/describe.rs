//! What brokers say of topics and groups: a topic's id and a member's, through calls that the Rust client does not
//! wrap, and the partitions that members have.

#![expect(unsafe_code, reason = "rdkafka wraps neither DescribeTopics nor rd_kafka_memberid")]

use super::member::TopicId;
use rdkafka::bindings as raw;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::KafkaError;
use rdkafka::groups::GroupMemberInfo;
use rdkafka::metadata::MetadataBroker;
use rdkafka::types::{RDKafkaAdminOp, RDKafkaErrorCode as Code};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// A broker that answers questions about topics. Without one the client would ask the controller, which it may not
/// reach.
#[derive(Debug, Default)]
pub(super) struct Informant(AtomicI32);

impl Informant {
    /// Longest wait for the one that answered last.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// The id of a topic; `None` where these brokers give topics none.
    ///
    /// # Errors
    /// The brokers do not answer within `timeout`, know no such topic, or refuse.
    pub fn topic_id<C: ClientContext>(
        &self,
        client: &Client<C>,
        topic: &str,
        timeout: Duration,
    ) -> Result<Option<TopicId>, KafkaError> {
        // Ids of brokers are kept one higher: 0 is none.
        let broker = match self.0.load(Ordering::Relaxed) {
            0 => find_broker(client, topic, timeout)?,
            known => known - 1,
        };
        let found = topic_id(client, broker, topic, timeout.min(Self::PATIENCE));
        self.0.store(if found.is_ok() { broker.saturating_add(1) } else { 0 }, Ordering::Relaxed);
        found
    }
}

/// The broker that answers a question about the topic.
fn find_broker<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    timeout: Duration,
) -> Result<i32, KafkaError> {
    let metadata = client.fetch_metadata(Some(topic), timeout)?;
    let first = || metadata.brokers().iter().map(MetadataBroker::id).find(|id| *id >= 0);
    // One that the client knows by its address alone has no id yet.
    let answered = Some(metadata.orig_broker_id()).filter(|id| *id >= 0);
    answered.or_else(first).ok_or(KafkaError::MetadataFetch(Code::LeaderNotAvailable))
}

fn topic_id<C: ClientContext>(
    client: &Client<C>,
    broker: i32,
    topic: &str,
    timeout: Duration,
) -> Result<Option<TopicId>, KafkaError> {
    let name = CString::new(topic).map_err(KafkaError::Nul)?;
    let mut names = [name.as_ptr()];
    let send = |options, queue| {
        // SAFETY: the names outlive the collection, which copies them, and the call copies the collection.
        unsafe {
            let topics = raw::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
            raw::rd_kafka_DescribeTopics(client.native_ptr(), topics, options, queue);
            raw::rd_kafka_TopicCollection_destroy(topics);
        }
    };
    let operation = RDKafkaAdminOp::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
    ask(client, (operation, broker), timeout, send, |answer| {
        // SAFETY: the answer lives until this function returns, and what it lists with it.
        unsafe {
            let result = raw::rd_kafka_event_DescribeTopics_result(answer);
            if result.is_null() {
                return Err(KafkaError::MetadataFetch(Code::BadMessage));
            }
            let mut count = 0;
            let topics = raw::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
            if count == 0 {
                return Err(KafkaError::MetadataFetch(Code::UnknownTopicOrPartition));
            }
            let topic = *topics;
            let error = raw::rd_kafka_TopicDescription_error(topic);
            if !error.is_null() {
                check(raw::rd_kafka_error_code(error))?;
            }
            let id = raw::rd_kafka_Uuid_base64str(raw::rd_kafka_TopicDescription_topic_id(topic));
            Ok(TopicId::new(&CStr::from_ptr(id).to_string_lossy()))
        }
    })
}

/// The id by which the group knows this member, as of now: another one each time it joins anew. Empty while it is in no
/// group.
pub(super) fn member_id<C: ClientContext>(client: &Client<C>) -> String {
    // SAFETY: the client outlives the call; its answer is copied, and freed once by the client's own means.
    unsafe {
        let id = raw::rd_kafka_memberid(client.native_ptr());
        if id.is_null() {
            return String::new();
        }
        let copied = CStr::from_ptr(id).to_string_lossy().into_owned();
        raw::rd_kafka_mem_free(client.native_ptr(), id.cast());
        copied
    }
}

/// Partitions of a topic that some member of the group has, and whether they are shared out, and not about to be;
/// `None` where brokers do not tell, which they do of members that speak "classic" only.
///
/// DescribeConsumerGroups would tell of all members. librdkafka (2.12) aborts the process where the coordinator comes
/// back after that call timed out: `rd_kafka_coord_req_fsm` answers for a request that is gone already.
///
/// # Errors
/// A broker does not answer within `timeout`, or refuses.
pub(super) fn assigned<C: ClientContext>(
    client: &Client<C>,
    group: &str,
    topic: &str,
    timeout: Duration,
) -> Result<Option<(BTreeSet<i32>, bool)>, KafkaError> {
    let groups = client.fetch_group_list(Some(group), timeout)?;
    let described = groups.groups().iter().find(|found| found.name() == group);
    let Some(described) = described.filter(|found| found.protocol_type() == CONSUMERS) else {
        return Ok(None);
    };
    let mut found = BTreeSet::new();
    for assignment in described.members().iter().filter_map(GroupMemberInfo::assignment) {
        let read = assigned_partitions(assignment, topic);
        found.extend(read.ok_or(KafkaError::GroupListFetch(Code::BadMessage))?);
    }
    Ok(Some((found, described.state() == STABLE)))
}

/// What brokers call a group whose partitions are shared out.
const STABLE: &str = "Stable";

/// What groups of consumers call their protocol; brokers leave it empty where they do not tell of the members.
const CONSUMERS: &str = "consumer";

/// The partitions of a topic in a member's assignment as the consumer protocol writes it: a version, then topics, each
/// with its partitions.
fn assigned_partitions(mut assignment: &[u8], topic: &str) -> Option<Vec<i32>> {
    let rest = &mut assignment;
    let _version = take::<2>(rest)?;
    let mut found = Vec::new();
    for _ in 0..i32::from_be_bytes(take(rest)?) {
        let length = usize::try_from(i16::from_be_bytes(take(rest)?)).ok()?;
        let (name, behind) = rest.split_at_checked(length)?;
        *rest = behind;
        for _ in 0..i32::from_be_bytes(take(rest)?) {
            let partition = i32::from_be_bytes(take(rest)?);
            found.extend((name == topic.as_bytes()).then_some(partition));
        }
    }
    Some(found)
}

/// Takes so many bytes off the front.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

fn check(code: raw::rd_kafka_resp_err_t) -> Result<(), KafkaError> {
    match Code::from(code) {
        Code::NoError => Ok(()),
        code => Err(KafkaError::MetadataFetch(code)),
    }
}

/// Sends one question to a broker, waits for the answer at a queue of its own, and reads it; what is read must be
/// copied.
fn ask<C: ClientContext, T>(
    client: &Client<C>,
    (operation, broker): (RDKafkaAdminOp, i32),
    timeout: Duration,
    send: impl FnOnce(*const raw::rd_kafka_AdminOptions_t, *mut raw::rd_kafka_queue_t),
    read: impl FnOnce(*mut raw::rd_kafka_event_t) -> Result<T, KafkaError>,
) -> Result<T, KafkaError> {
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: the client outlives the call, options and queue are freed once each, and an answer that comes after the
    // queue was given up is the client's to free. A refused option leaves the client's own.
    unsafe {
        let queue = raw::rd_kafka_queue_new(client.native_ptr());
        let options = raw::rd_kafka_AdminOptions_new(client.native_ptr(), operation);
        raw::rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, std::ptr::null_mut(), 0);
        raw::rd_kafka_AdminOptions_set_broker(options, broker, std::ptr::null_mut(), 0);
        send(options, queue);
        raw::rd_kafka_AdminOptions_destroy(options);
        let answer = raw::rd_kafka_queue_poll(queue, timeout_ms);
        raw::rd_kafka_queue_destroy(queue);
        if answer.is_null() {
            return Err(KafkaError::MetadataFetch(Code::OperationTimedOut));
        }
        let read = check(raw::rd_kafka_event_error(answer)).and_then(|()| read(answer));
        raw::rd_kafka_event_destroy(answer);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_to_its_end_or_not_at_all() {
        let topic = |name: &str, partitions: &[i32]| {
            let mut bytes = (name.len() as i16).to_be_bytes().to_vec();
            bytes.extend(name.as_bytes());
            bytes.extend((partitions.len() as i32).to_be_bytes());
            partitions.iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
            bytes
        };
        let head = [&[0, 1][..], &2i32.to_be_bytes()].concat();
        let whole = [head, topic("other", &[7]), topic("requests", &[0, 3])].concat();
        // User data follows.
        let with_data = [&whole[..], &(-1i32).to_be_bytes()].concat();
        assert_eq!(assigned_partitions(&with_data, "requests"), Some(vec![0, 3]));
        assert_eq!(assigned_partitions(&with_data, "none"), Some(vec![]));
        for cut in 0..whole.len() {
            assert_eq!(assigned_partitions(&whole[..cut], "requests"), None, "cut at {cut}");
        }
    }
}
