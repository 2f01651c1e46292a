//! Asks the other members how far they are.

use std::time::Duration;

use firstclaim_proto::v1::GetStatusRequest;
use firstclaim_proto::v1::cluster_service_client::ClusterServiceClient;
use tonic::transport::Endpoint;

use crate::node::Node;

/// How long a member may take to answer.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// The last log index that every member is known to have applied; 0 while one cannot be asked.
///
/// A name that was deleted is free again only once nobody can answer from its old life.
pub(crate) async fn applied_by_all(node: &Node) -> u64 {
    let own = node.replica.status();
    let others = own
        .members
        .iter()
        .filter(|member| member.node_id != own.node_id)
        .map(|member| applied(member.member.client_addr.clone()));
    let mut lowest = own.applied_index.unwrap_or(0);
    for answer in futures::future::join_all(others).await {
        match answer {
            Ok(index) => lowest = lowest.min(index),
            Err(error) => {
                tracing::debug!(%error, "a member cannot say what it has applied");
                lowest = 0;
            }
        }
    }
    lowest
}

async fn applied(endpoint: String) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let asked = async {
        let channel = Endpoint::from_shared(endpoint)?.connect().await?;
        let status = ClusterServiceClient::new(channel).get_status(GetStatusRequest {}).await?;
        Ok(status.into_inner().applied_index)
    };
    tokio::time::timeout(ASK_TIMEOUT, asked).await?
}
