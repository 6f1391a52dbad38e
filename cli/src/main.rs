//! The command `slackwater`.

fn main() {}
