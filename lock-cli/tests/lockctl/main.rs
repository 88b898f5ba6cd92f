//! lockctl as its users meet it: real processes, real signals, the file backend in a directory of each test's own.
#![cfg(test)]

mod counter;
mod guard;
mod loss;
mod run;
mod show;
mod status;
mod support;
mod terminal;
mod waiting;
