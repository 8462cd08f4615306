//! x
use super::tests;
tests! {}
