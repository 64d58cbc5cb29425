/^static struct gendisk \*mmc_alloc_disk\(/,/^}$/{
	s/^	mq->queue = disk->queue;$/&\
	disk->bdi->capabilities |= BDI_CAP_SLOW;/
}
