//! What is made on a thread of its own while another one works on what was made before.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

/// Things that a thread makes ahead; what was used goes back to it for its memory.
pub(super) struct MadeAhead<Made, Used, Maker> {
    made: Receiver<Made>,
    spare: Sender<Used>,
    thread: Option<JoinHandle<Maker>>,
}

impl<Made: Send + 'static, Used: Send + Default + 'static, Maker: Send + 'static>
    MadeAhead<Made, Used, Maker>
{
    /// Has a thread make one after another, of which so many wait to be taken. `make` says whether it was the last.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub fn start(
        name: &str,
        waiting: usize,
        mut maker: Maker,
        make: fn(&mut Maker, Used) -> (Made, bool),
    ) -> io::Result<Self> {
        let (sender, made) = sync_channel(waiting);
        let (spare, spares) = channel();
        let work = move || {
            loop {
                let (one, is_last) = make(&mut maker, spares.try_recv().unwrap_or_default());
                if sender.send(one).is_err() || is_last {
                    return maker;
                }
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { made, spare, thread: Some(thread) })
    }

    /// The next one, for one that was used; nothing behind the last, or where the thread has panicked.
    pub fn next(&mut self, used: Used) -> Option<Made> {
        // Nobody to reuse it once the last was made.
        drop(self.spare.send(used));
        self.made.recv().ok()
    }

    /// Takes no more; what made them, once it is at its end. A thread that did not come there by itself has panicked,
    /// which goes on here.
    pub fn end(&mut self) -> Option<Maker> {
        // A thread that has one more to give finds nobody to take it.
        self.made = channel().1;
        let ended = self.thread.take()?.join();
        Some(ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}
