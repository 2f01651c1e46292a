//! Messages of the public wire.

use std::fmt::Debug;

use firstclaim_proto::weigh::{self, Shaped};

/// A message that reads back the same.
pub(crate) fn decoded<M: Shaped + PartialEq + Debug>(bytes: &[u8]) -> Option<M> {
    let read = weigh::decode::<M>(bytes).ok()?;
    assert_eq!(sent(&read), read);
    Some(read)
}

/// What comes out at the other end of the wire.
pub(crate) fn sent<M: Shaped>(message: &M) -> M {
    M::decode(&*message.encode_to_vec()).expect("what was written can be read")
}
