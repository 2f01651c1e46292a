//! Messages of the public wire.

use firstclaim_proto::weigh::Shaped;
pub(crate) use firstclaim_replica::fuzzing::decoded;

/// What comes out at the other end of the wire.
pub(crate) fn sent<M: Shaped>(message: &M) -> M {
    M::decode(&*message.encode_to_vec()).expect("what was written can be read")
}
