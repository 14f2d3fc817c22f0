//! What brokers say of topics and groups through librdkafka's admin calls that the Rust client does not wrap.
//!
//! Every call goes through [`ask`], which owns the queue, the options and the answer; what is read from an answer is
//! copied before the answer goes.

#![expect(unsafe_code, reason = "rdkafka wraps neither DescribeTopics nor DescribeConsumerGroups")]

use super::member::TopicId;
use rdkafka::bindings as raw;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::KafkaError;
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
    ask(client, (operation, Some(broker)), timeout, send, |answer| {
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

/// Partitions of a topic that some member of the group has.
///
/// # Errors
/// The group's coordinator does not answer within `timeout`, or refuses.
pub(super) fn assigned<C: ClientContext>(
    client: &Client<C>,
    group: &str,
    topic: &str,
    timeout: Duration,
) -> Result<BTreeSet<i32>, KafkaError> {
    let name = CString::new(group).map_err(KafkaError::Nul)?;
    let topic = CString::new(topic).map_err(KafkaError::Nul)?;
    let mut names = [name.as_ptr()];
    let send = |options, queue| {
        // SAFETY: the names outlive the call, which copies them.
        unsafe {
            raw::rd_kafka_DescribeConsumerGroups(
                client.native_ptr(),
                names.as_mut_ptr(),
                names.len(),
                options,
                queue,
            );
        }
    };
    let operation = RDKafkaAdminOp::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS;
    ask(client, (operation, None), timeout, send, |answer| {
        // SAFETY: the answer lives until this function returns, and what it lists with it; lists are as long as they say.
        unsafe {
            let result = raw::rd_kafka_event_DescribeConsumerGroups_result(answer);
            if result.is_null() {
                return Err(KafkaError::GroupListFetch(Code::BadMessage));
            }
            let mut count = 0;
            let groups = raw::rd_kafka_DescribeConsumerGroups_result_groups(result, &raw mut count);
            if count == 0 {
                return Err(KafkaError::GroupListFetch(Code::BadMessage));
            }
            let group = *groups;
            let error = raw::rd_kafka_ConsumerGroupDescription_error(group);
            let mut found = BTreeSet::new();
            if !error.is_null() {
                return match check(raw::rd_kafka_error_code(error)) {
                    // A group that is none has no members.
                    Err(KafkaError::MetadataFetch(Code::GroupIdNotFound)) => Ok(found),
                    refused => refused.map(|()| found),
                };
            }
            for member in 0..raw::rd_kafka_ConsumerGroupDescription_member_count(group) {
                let member = raw::rd_kafka_ConsumerGroupDescription_member(group, member);
                let assignment = raw::rd_kafka_MemberDescription_assignment(member);
                let list = raw::rd_kafka_MemberAssignment_partitions(assignment);
                if list.is_null() {
                    continue;
                }
                let count = usize::try_from((*list).cnt).unwrap_or(0);
                for element in 0..count {
                    let element = &*(*list).elems.add(element);
                    if CStr::from_ptr(element.topic) == topic.as_c_str() {
                        found.insert(element.partition);
                    }
                }
            }
            Ok(found)
        }
    })
}

fn check(code: raw::rd_kafka_resp_err_t) -> Result<(), KafkaError> {
    match Code::from(code) {
        Code::NoError => Ok(()),
        code => Err(KafkaError::MetadataFetch(code)),
    }
}

/// Sends one question, to this broker where one is named, waits for the answer at a queue of its own, and reads it.
fn ask<C: ClientContext, T>(
    client: &Client<C>,
    (operation, broker): (RDKafkaAdminOp, Option<i32>),
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
        if let Some(broker) = broker {
            raw::rd_kafka_AdminOptions_set_broker(options, broker, std::ptr::null_mut(), 0);
        }
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
