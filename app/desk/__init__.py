"""The reviewer's desk: what the player asks of the store of reviews, who asks, and the tab that sums up."""
