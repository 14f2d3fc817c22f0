//! The only place that names rdkafka.
