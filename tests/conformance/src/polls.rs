use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Polls `call` up to `polls` times, whenever it is woken, and then drops it: what a caller does that gives up at some await
/// point. The output if it ended by then.
pub(crate) async fn poll_times<T>(polls: usize, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
