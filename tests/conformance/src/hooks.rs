//! What a case can do to the service behind the backend's back, where its [`Need`](crate::Need)s say that there is a hook.
use lock_core::LockClient;

use crate::service::{Entry, Link};
use crate::{Contender, Trial};

/// The case asked for something that it has not put among its needs.
const NEEDED: &str = "a case that uses a hook needs it";

impl Trial {
    /// The service forgets who holds the case's lock.
    pub(crate) async fn service_forgets_the_holder(&self) {
        (self.service().evict.as_ref().expect(NEEDED))(self.name().clone()).await;
    }

    /// What the service itself keeps of the case's lock.
    pub(crate) async fn entries(&self) -> Vec<Entry> {
        (self.service().look.as_ref().expect(NEEDED))(self.name().clone()).await
    }

    /// The service crashes and comes again.
    pub(crate) async fn service_restarts(&self) {
        (self.service().restart.as_ref().expect(NEEDED))(()).await;
    }

    /// A contender for the case's lock that reaches the service over a network of its own.
    pub(crate) fn contender_over_link(&self) -> (Contender, Link) {
        let (backend, link) = (self.service().link.as_ref().expect(NEEDED))();
        self.closes_in_the_end(&backend);
        (Contender::new(self, self.next_contender(), backend, self.name().clone()), link)
    }

    /// A client that reaches the service over a network of its own, with [`op_timeout`](Self::op_timeout). It is closed when
    /// the case ends.
    pub(crate) fn client_over_link(&self) -> (LockClient, Link) {
        let (backend, link) = (self.service().link.as_ref().expect(NEEDED))();
        let client = self.builder(backend).op_timeout(self.op_timeout()).build();
        self.client_closes_in_the_end(&client);
        (client, link)
    }
}
