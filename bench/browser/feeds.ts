/** Pages that show 1,000 PVs, and where each gets them. */

import type { PeerName } from "./pvs";

/** From the relay. */
export const OWN_FEEDS = ["pvwire", "text nodes by hand", "Readback", "Readback by hand"] as const;

export type OwnFeed = (typeof OWN_FEEDS)[number];

export type FeedName = OwnFeed | PeerName;

export const isOwn = (feed: FeedName): feed is OwnFeed => OWN_FEEDS.some((own) => own === feed);
