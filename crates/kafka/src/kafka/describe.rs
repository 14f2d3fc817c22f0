//! What brokers say of topics and groups through librdkafka's admin calls that the Rust client does not wrap.
//!
//! Every call goes through [`ask`], which owns the queue, the options and the answer; what is read from an answer is
//! copied before the answer goes.

#![expect(unsafe_code, reason = "rdkafka wraps neither DescribeTopics nor its answer")]

use super::member::TopicId;
use rdkafka::bindings as raw;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::KafkaError;
use rdkafka::types::{RDKafkaAdminOp, RDKafkaErrorCode as Code};
use std::ffi::{CStr, CString};
use std::time::Duration;

/// The id of a topic; `None` where these brokers give topics none.
///
/// # Errors
/// The brokers do not answer within `timeout`, know no such topic, or refuse.
pub(super) fn topic_id<C: ClientContext>(
    client: &Client<C>,
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
    ask(client, RDKafkaAdminOp::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS, timeout, send, |answer| {
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

fn check(code: raw::rd_kafka_resp_err_t) -> Result<(), KafkaError> {
    match Code::from(code) {
        Code::NoError => Ok(()),
        code => Err(KafkaError::MetadataFetch(code)),
    }
}

/// Sends one question with its options to a queue of its own, waits for the answer, and reads it.
fn ask<C: ClientContext, T>(
    client: &Client<C>,
    operation: RDKafkaAdminOp,
    timeout: Duration,
    send: impl FnOnce(*const raw::rd_kafka_AdminOptions_t, *mut raw::rd_kafka_queue_t),
    read: impl FnOnce(*mut raw::rd_kafka_event_t) -> Result<T, KafkaError>,
) -> Result<T, KafkaError> {
    let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: the client outlives the call, options and queue are freed once each, and an answer that comes after the
    // queue was given up is the client's to free. A refused timeout leaves the client's own, which the wait does not need.
    unsafe {
        let queue = raw::rd_kafka_queue_new(client.native_ptr());
        let options = raw::rd_kafka_AdminOptions_new(client.native_ptr(), operation);
        raw::rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, std::ptr::null_mut(), 0);
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
