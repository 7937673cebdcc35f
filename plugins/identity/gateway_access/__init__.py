"""Who may send, what, and how much: authentication, policies and quotas of sources that let senders in."""
